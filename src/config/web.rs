//! `[web]` and `[search.NAME]`: the role that may use the web, the private hosts that it may reach, and the
//! search engines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::NamedSection;
use crate::people::Role;
use crate::tools::web::Config;
use crate::tools::web::address::AllowedHost;
use crate::tools::web::search::{Engine, EngineKind};

use super::keys::KeysByKind;
use super::reading::{ConfigSource, Section};
use super::values::{At, Flag, Text, Url};
use crate::config::secrets::{self, UnresolvedSecret};

/// Maximum number of listed hosts; more are a mistake.
const LISTED_MAX: usize = 100;

/// The web tools: web_fetch reads pages, and web_search searches the web.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebSection {
    /// If false, there are no web tools.
    enabled: Flag<true>,
    /// The least role that can use them: guest | user | admin | owner.
    role: Role,
    /// Your own hosts that can be read although they are not public, as HOST or HOST:PORT.
    /// Everybody with that role can then read their pages as this machine sees them. Default: none.
    allow: Option<At<Vec<Text<AllowedHost>>>>,
    /// The search engines, by name. The first one is used. The others are fallbacks, in this order.
    /// Default: all, in the order of the config file.
    engines: Option<At<Vec<At<String>>>>,
}

/// A search engine. You choose the name. There can be many. If the config file has none, it is
/// DuckDuckGo's page without scripts, which needs no key and blocks programs that ask often.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["type"], "limited" = LIMITED))]
pub(super) struct SearchSection {
    /// brave | tavily | searxng | duckduckgo.
    r#type: Option<EngineKind>,
    /// A secret: the API key. Brave and Tavily require it.
    api_key: Option<At<UnresolvedSecret>>,
    /// The engine's address. http:// is allowed for this machine only. SearXNG has no default, and
    /// `json` must be among search.formats in its settings.yml. Default: the vendor's own.
    base_url: Option<Text<Url>>,
}

const LIMITED: KeysByKind = &[(&["api_key"], &["brave", "tavily", "searxng"])];

impl Default for WebSection {
    fn default() -> Self {
        Self { enabled: Flag::default(), role: Role::User, allow: None, engines: None }
    }
}

impl WebSection {
    pub(super) fn config(
        self,
        source: &ConfigSource<'_>,
        engines: BTreeMap<String, SearchSection>,
    ) -> Config {
        let sections = source.named("search", engines);
        let names: Vec<_> = sections.iter().map(|section| section.name.clone()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let engines = sections
            .into_iter()
            .filter_map(|NamedSection { name, place, read: section }| section.engine(name, &place));
        let mut engines: Vec<Engine> = engines.collect();
        if let Some(order) = &self.engines {
            let order = source.order(order, "search engine", &names);
            let named = |name: &String| engines.iter().find(|engine| engine.name == *name).cloned();
            engines = order.iter().filter_map(named).collect();
        }
        if let Some(allow) = self.allow.as_ref().filter(|allow| allow.value.len() > LISTED_MAX) {
            source.refuse(allow, format!("has more than {LISTED_MAX} entries"));
        }
        let allow = self.allow.into_iter().flat_map(|allow| allow.value);
        Config {
            enabled: self.enabled.0,
            role: self.role,
            allow: allow.map(|listed| listed.0).collect(),
            engines: if engines.is_empty() { vec![Engine::default()] } else { engines },
        }
    }
}

impl SearchSection {
    fn engine(self, name: String, place: &Section<'_, '_>) -> Option<Engine> {
        let wanted = "one of brave, tavily, searxng, duckduckgo";
        let api = place.require(self.r#type, "type", wanted)?;
        place.allow_only(
            LIMITED,
            api.as_str(),
            &format!("a search engine of type {}", api.as_str()),
        );
        let base_url = self.base_url.map(|url| url.0.0);
        let base_url = match api.home() {
            Some(home) => place.or(base_url, "base_url", home.to_owned()),
            None => place.require(base_url, "base_url", "the address of your SearXNG"),
        };
        let key = match api {
            EngineKind::Brave | EngineKind::Tavily => {
                let wanted = "a secret, which the vendor gives you";
                Some(place.require(self.api_key, "api_key", wanted)?)
            }
            EngineKind::Searxng => self.api_key,
            EngineKind::DuckDuckGo => None,
        };
        let api_key = match key {
            Some(key) => Some(secrets::read(place.source, &key)?),
            None => None,
        };
        Some(Engine { name, api, api_key, base_url: base_url? })
    }
}

/// Describes the section for a person who checks it before a start. No secrets.
pub(super) fn describe(web: &Config) -> String {
    if !web.enabled {
        return "web\n  off\n".to_owned();
    }
    let engines: Vec<_> = web
        .engines
        .iter()
        .map(|Engine { name, api, base_url, .. }| format!("{name} ({}, {base_url})", api.as_str()))
        .collect();
    let allow: Vec<_> = web.allow.iter().map(ToString::to_string).collect();
    let allow = if allow.is_empty() { String::new() } else { format!(" and {}", allow.join(" ")) };
    format!(
        "web\n  role {}, public addresses{allow}; search: {}\n",
        web.role,
        engines.join(", then ")
    )
}
