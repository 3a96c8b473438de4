//! Connects the providers of the config.

use anyhow::Context as _;

use crate::config::Config;
use crate::provider;
use crate::provider::models::{Model, Models, Standing};
use crate::provider::prices::{self, Prices};
use crate::provider::troubles::ModelTroubles;
use crate::types::origin::TaskKind;

/// Connects all providers of the config, those that answer by default first.
pub fn models(config: &Config) -> anyhow::Result<Models> {
    let default_names = &config.agent.providers;
    let other_names = config.providers.keys().filter(|name| !default_names.contains(name));
    let default_names = default_names.iter().map(|name| (name, Standing::Default));
    let troubles = ModelTroubles::default();
    let (mut models, mut known_prices) = (Vec::new(), Vec::new());
    for (name, standing) in default_names.chain(other_names.map(|name| (name, Standing::Chosen))) {
        let section = config.providers.get(name);
        let section = section.with_context(|| format!("there is no provider `{name}`"))?;
        let provider = troubles.watch(name, provider::connect(name, section)?);
        known_prices
            .extend(prices::of_provider(section).map(|it| (provider.name().to_owned(), it)));
        models.push(Model { name: name.clone(), provider, standing });
    }
    let agent = &config.agent;
    let tasks =
        [(TaskKind::Job, &agent.job_provider), (TaskKind::Subagent, &agent.subagent_provider)];
    let tasks = tasks.into_iter().filter_map(|(kind, name)| Some((kind, name.clone()?)));
    let models = Models::new(models).with_prices(Prices::new(known_prices));
    Ok(models.with_tasks(tasks.collect()).with_troubles(troubles))
}
