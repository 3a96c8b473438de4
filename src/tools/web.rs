//! The web tools, which trust neither the targets of links nor the content. `web_fetch` reads pages,
//! `web_search` uses search engines.

pub mod address;
mod cache;
pub mod fetch;
pub mod helper;
pub mod redirects;
mod html;
pub mod interfaces;
mod page;
mod result_page;
pub mod search;
mod tree;

use std::sync::Arc;

use super::AnyTool;
use super::for_role::ForRole;
use crate::people::Role;
use crate::secret::Secret;

pub use redirects::{FetchLimits, SystemNames};

/// The `[web]` section, and the search engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub enabled: bool,
    /// The lowest role that may use these tools.
    pub role: Role,
    /// Hosts that may be reached though they are not public.
    pub allow: Vec<address::AllowedHost>,
    /// The first is asked; the others are fallbacks, in this order. Never empty.
    pub engines: Vec<search::Engine>,
}

impl Default for Config {
    fn default() -> Self {
        let engines = vec![search::Engine::default()];
        Self { enabled: true, role: Role::User, allow: Vec::new(), engines }
    }
}

impl Config {
    /// Returns the values that must not be logged.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.engines.iter().filter_map(|engine| engine.api_key.as_ref())
    }
}

/// Returns the tools that the config asks for.
pub fn tools(config: &Config) -> anyhow::Result<Vec<Arc<dyn AnyTool>>> {
    if !config.enabled {
        return Ok(Vec::new());
    }
    let fetch = fetch::WebFetch::new(&config.allow, Arc::new(SystemNames), FetchLimits::default());
    let search = search::WebSearch::new(&config.engines)?;
    Ok(vec![Arc::new(ForRole(config.role, fetch)), Arc::new(ForRole(config.role, search))])
}
