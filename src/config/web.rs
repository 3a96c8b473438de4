//! `[web]` and `[search.NAME]`: who may use the web, what of the owner's own network it may reach, and
//! which engines are asked.

use crate::people::Role;
use crate::tools::web::Config;
use crate::tools::web::address::AllowedHost;
use crate::tools::web::search::{Engine, EngineKind};

use super::reading::{Located, Section};
use super::{secrets, sections};

const ROLES: [(&str, Role); 4] =
    [("guest", Role::Guest), ("user", Role::User), ("admin", Role::Admin), ("owner", Role::Owner)];

const APIS: [(&str, EngineKind); 4] = [
    (EngineKind::Brave.as_str(), EngineKind::Brave),
    (EngineKind::Tavily.as_str(), EngineKind::Tavily),
    (EngineKind::Searxng.as_str(), EngineKind::Searxng),
    (EngineKind::DuckDuckGo.as_str(), EngineKind::DuckDuckGo),
];

/// More are a mistake.
const LISTED_MAX: usize = 100;

pub(super) fn web(top: &mut Section<'_>) -> Config {
    let default = Config::default();
    let sections = top.named("search");
    let mut names = Vec::new();
    let mut engines = Vec::new();
    for (name, section) in sections {
        names.push(name);
        engines.extend(engine(name, section));
    }
    let Some(mut section) = top.section("web") else {
        let engines = if engines.is_empty() { default.engines } else { engines };
        return Config { engines, ..default };
    };
    let enabled = section.ask("enabled").and_then(|value| value.flag());
    let role = section.ask("role").and_then(|value| value.choice(&ROLES));
    let allow = section.ask("allow").and_then(|value| listed(&value));
    let order =
        section.ask("engines").and_then(|value| sections::order(&value, "search engine", &names));
    section.finish("the web");
    if let Some(order) = order {
        let named = |name: &String| engines.iter().find(|engine| engine.name == *name).cloned();
        engines = order.iter().filter_map(named).collect();
    }
    Config {
        enabled: enabled.unwrap_or(default.enabled),
        role: role.unwrap_or(default.role),
        allow: allow.unwrap_or_default(),
        engines: if engines.is_empty() { default.engines } else { engines },
    }
}

fn listed(value: &Located<'_>) -> Option<Vec<AllowedHost>> {
    let entries = value.list()?;
    if entries.len() > LISTED_MAX {
        value.fault(format!("has more than {LISTED_MAX} entries"));
    }
    let read = |entry: &Located<'_>| entry.text()?.parse().map_err(|wrong| entry.fault(wrong)).ok();
    let read: Vec<_> = entries.iter().map(read).collect();
    read.into_iter().collect()
}

fn engine(name: &str, mut section: Section<'_>) -> Option<Engine> {
    let api = section.require("type", "one of brave, tavily, searxng, duckduckgo");
    let Some(api) = api.and_then(|value| value.choice(&APIS)) else {
        section.finish_of_any_kind();
        return None;
    };
    let base_url = match (section.ask("base_url"), api.home()) {
        (Some(value), _) => sections::url(&value),
        (None, Some(home)) => Some(home.to_owned()),
        (None, None) => {
            section.require("base_url", "where your SearXNG is");
            None
        }
    };
    let api_key = match api {
        EngineKind::Brave | EngineKind::Tavily => {
            let key = section.require("api_key", "a secret; its vendor gives you one");
            Some(key.and_then(|value| secrets::read(&value)))
        }
        EngineKind::Searxng => section.ask("api_key").map(|value| secrets::read(&value)),
        EngineKind::DuckDuckGo => None,
    };
    section.finish(&format!("a search engine of type {}", api.as_str()));
    let api_key = match api_key {
        Some(read) => Some(read?),
        None => None,
    };
    Some(Engine { name: name.to_owned(), api, api_key, base_url: base_url? })
}

/// What a person checks before a start; no secrets.
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
