//! The variables that the process was started with, captured once as a value, so that tests need
//! change nothing; and what they alone can start.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use crate::channels::config::{
    DISCORD_URL, DiscordConfig, DiscordThreads, SLACK_URL, SlackConfig, SlackThreads, TELEGRAM_URL,
    TelegramConfig,
};
use crate::channels::{self, Kind};
use crate::people::Access;
use crate::provider;
use crate::types::message::ChannelName;
use crate::workspace::skills::SkillEnvironment;

use super::providers::{ANTHROPIC_URL, OPENAI_URL, Providers, TOKENS_MAX, rehearsal};
use super::reading::Source;
use super::{Place, secrets};

/// Variables by name.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The only place that reads the variables of the process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// None too if it is empty.
    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|text| !text.is_empty())
    }

    /// None too if it is empty or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.raw(name).and_then(OsStr::to_str)
    }
}

impl Environment {
    /// What skills may need of the machine.
    pub fn surroundings(&self) -> SkillEnvironment {
        let set = self.0.iter().filter(|(_, value)| !value.is_empty());
        SkillEnvironment {
            home: self.raw("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
            path: self
                .raw("PATH")
                .map(|path| std::env::split_paths(path).collect())
                .unwrap_or_default(),
            env: set.filter_map(|(name, _)| Some(name.to_str()?.to_owned())).collect(),
        }
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, text)| (name.into(), text.into())).collect())
    }
}

/// Names only: the values may be secret.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A provider that its key alone starts.
struct Known {
    variable: &'static str,
    name: &'static str,
    kind: provider::ProviderKind,
    model: &'static str,
    base_url: &'static str,
    /// Whether its model sees pictures.
    images: bool,
}

/// The first answers; the others are fallbacks, in this order.
const PROVIDERS: [Known; 3] = [
    Known {
        variable: "ANTHROPIC_API_KEY",
        name: "anthropic",
        kind: provider::ProviderKind::Anthropic,
        model: "claude-sonnet-4-5",
        base_url: ANTHROPIC_URL,
        images: true,
    },
    Known {
        variable: "OPENAI_API_KEY",
        name: "openai",
        kind: provider::ProviderKind::OpenAi,
        model: "gpt-5-mini",
        base_url: OPENAI_URL,
        images: true,
    },
    Known {
        variable: "OPENROUTER_API_KEY",
        name: "openrouter",
        kind: provider::ProviderKind::OpenAi,
        model: "openrouter/auto",
        base_url: "https://openrouter.ai/api/v1",
        images: false,
    },
];

const SLACK_BOT_TOKEN: &str = "SLACK_BOT_TOKEN";
const SLACK_APP_TOKEN: &str = "SLACK_APP_TOKEN";

/// One provider for each key that is set, or the rehearsal one; for a config that names none.
pub(super) fn providers(source: &Source<'_>) -> Providers {
    let found: Vec<_> = PROVIDERS
        .iter()
        .filter(|known| source.env.raw(known.variable).is_some())
        .map(|known| {
            let config =
                secrets::of_variable(source, known.variable).map(|api_key| provider::Config {
                    kind: known.kind,
                    model: known.model.to_owned(),
                    api_key: Some(api_key),
                    base_url: known.base_url.to_owned(),
                    tokens_max: Some(TOKENS_MAX),
                    context: provider::default_context(known.model, known.base_url),
                    tools: provider::Tools::Native,
                    images: known.images,
                });
            (known.name.to_owned(), config)
        })
        .collect();
    if found.is_empty() { vec![("rehearsal".to_owned(), Some(rehearsal()))] } else { found }
}

/// The channels whose tokens are set; for a config that names none.
pub(super) fn channels(source: &Source<'_>) -> Vec<(ChannelName, channels::Config)> {
    let left_out = [
        ("DISCORD_BOT_TOKEN", "Discord", cfg!(feature = "discord")),
        (SLACK_BOT_TOKEN, "Slack", cfg!(feature = "slack")),
        ("TELEGRAM_BOT_TOKEN", "Telegram", cfg!(feature = "telegram")),
    ];
    for (variable, platform, built) in left_out {
        if !built && source.env.raw(variable).is_some() {
            source.note(format!("{variable} is not used: this was built without {platform}"));
        }
    }
    let found = [
        ("discord", discord(source).filter(|_| cfg!(feature = "discord"))),
        ("slack", slack(source).filter(|_| cfg!(feature = "slack"))),
        ("telegram", telegram(source).filter(|_| cfg!(feature = "telegram"))),
    ];
    let channels = found.into_iter().filter_map(|(name, kind)| {
        let config = channels::Config { access: Access::default(), kind: kind? };
        Some((name.into(), config))
    });
    channels.collect()
}

fn discord(source: &Source<'_>) -> Option<Kind> {
    source.env.raw("DISCORD_BOT_TOKEN")?;
    let token = secrets::of_variable(source, "DISCORD_BOT_TOKEN")?;
    let threads = DiscordThreads::default();
    Some(Kind::Discord(DiscordConfig { token, api_url: DISCORD_URL.into(), threads }))
}

fn telegram(source: &Source<'_>) -> Option<Kind> {
    source.env.raw("TELEGRAM_BOT_TOKEN")?;
    let token = secrets::of_variable(source, "TELEGRAM_BOT_TOKEN")?;
    Some(Kind::Telegram(TelegramConfig { token, api_url: TELEGRAM_URL.into() }))
}

/// Slack needs two tokens.
fn slack(source: &Source<'_>) -> Option<Kind> {
    let is_set = |variable| source.env.raw(variable).is_some();
    let (set, missing) = match (is_set(SLACK_BOT_TOKEN), is_set(SLACK_APP_TOKEN)) {
        (false, false) => return None,
        (true, true) => {
            let token = secrets::of_variable(source, SLACK_BOT_TOKEN);
            let app_token = secrets::of_variable(source, SLACK_APP_TOKEN);
            return Some(Kind::Slack(SlackConfig {
                token: token?,
                app_token: app_token?,
                api_url: SLACK_URL.to_owned(),
                threads: SlackThreads::default(),
            }));
        }
        (true, false) => (SLACK_BOT_TOKEN, SLACK_APP_TOKEN),
        (false, true) => (SLACK_APP_TOKEN, SLACK_BOT_TOKEN),
    };
    source.fault_in(
        Place::Environment,
        format!("{set} is set and {missing} is not; Slack needs both (xoxb-… and xapp-…)"),
    );
    None
}
