//! Connects the providers of the config.

use anyhow::Context as _;

use crate::config::Config;
use crate::provider;
use crate::provider::models::{Model, Models, Standing};

/// Connects all providers of the config, those that answer by default first.
pub(super) fn models(config: &Config) -> anyhow::Result<Models> {
    let line = &config.agent.providers;
    let others = config.providers.keys().filter(|name| !line.contains(name));
    let line = line.iter().map(|name| (name, Standing::InLine));
    let mut models = Vec::new();
    for (name, standing) in line.chain(others.map(|name| (name, Standing::Chosen))) {
        let section = config.providers.get(name);
        let section = section.with_context(|| format!("there is no provider `{name}`"))?;
        let provider = provider::connect(name, section)?;
        models.push(Model { name: name.clone(), provider, standing });
    }
    Ok(Models::new(models))
}
