//! The `[channels.NAME]` sections: one function for each platform, and who is let in on all of them.

use std::collections::BTreeMap;

use crate::channels::config::{
    DISCORD_URL, DiscordConfig, DiscordThreads, SLACK_URL, SlackConfig, SlackThreads, TELEGRAM_URL,
    TelegramConfig,
};
use crate::channels::{self, Kind};
use crate::message::ChannelName;
use crate::people::{Access, Groups};
use crate::secret::Secret;

use super::reading::{Located, Section};
use super::sections::url;
use super::{TERMINAL, secrets};

/// More people than that are a matter for `*`.
const PEOPLE_MAX: usize = 1000;

/// All `[channels.NAME]` without faults, and how many sections there are.
pub(super) fn channels(top: &mut Section<'_>) -> (BTreeMap<ChannelName, channels::Config>, usize) {
    let sections = top.named("channels");
    let count = sections.len();
    let mut tokens: Vec<(Secret, String)> = Vec::new();
    let mut channels = BTreeMap::new();
    for (name, section) in sections {
        if let Some(config) = channel(name, section, &mut tokens) {
            channels.insert(name.into(), config);
        }
    }
    (channels, count)
}

#[derive(Clone, Copy)]
enum Platform {
    Discord,
    Slack,
    Telegram,
    Terminal,
    /// To come.
    NotYet(&'static str),
    /// Left out of this build.
    LeftOut(&'static str),
}

/// A platform, if this build has it.
const fn built(platform: Platform, word: &'static str, has: bool) -> (&'static str, Platform) {
    (word, if has { platform } else { Platform::LeftOut(word) })
}

/// `tokens` are those of the channels before, with their titles.
fn channel(
    name: &str,
    mut section: Section<'_>,
    tokens: &mut Vec<(Secret, String)>,
) -> Option<channels::Config> {
    const TYPES: [(&str, Platform); 5] = [
        built(Platform::Telegram, "telegram", cfg!(feature = "telegram")),
        built(Platform::Discord, "discord", cfg!(feature = "discord")),
        built(Platform::Slack, "slack", cfg!(feature = "slack")),
        ("terminal", Platform::Terminal),
        ("web", Platform::NotYet("web")),
    ];
    let value = section.require("type", "one of telegram, discord, slack, terminal");
    let Some(platform) = value.as_ref().and_then(|value| value.choice(&TYPES)) else {
        section.finish_of_any_kind();
        return None;
    };
    match platform {
        Platform::NotYet(word) => {
            section.fault(format!("this version has no {word} channels yet"));
            None
        }
        Platform::LeftOut(word) => {
            section.fault(format!(
                "this program was built without {word}; build it with the Cargo feature {word}"
            ));
            None
        }
        Platform::Terminal => {
            section.finish("a channel of type terminal");
            Some(terminal())
        }
        Platform::Discord | Platform::Slack | Platform::Telegram if name == TERMINAL => {
            section
                .fault(format!("`{TERMINAL}` is the daemon's own terminal; choose another name"));
            None
        }
        Platform::Discord => discord_channel(section, tokens),
        Platform::Slack => slack_channel(section, tokens),
        Platform::Telegram => telegram_channel(section, tokens),
    }
}

fn telegram_channel(
    mut section: Section<'_>,
    tokens: &mut Vec<(Secret, String)>,
) -> Option<channels::Config> {
    let token = section.require("token", "the bot's token, from @BotFather");
    let token = token.and_then(|value| secrets::read(&value));
    let api_url = api_url(&mut section, TELEGRAM_URL);
    let access = access(&mut section, &NUMBERS);
    take_token(&section, token.as_ref(), tokens, "Telegram lets only one of them listen");
    section.finish("a channel of type telegram");
    let config = TelegramConfig { token: token?, api_url: api_url? };
    Some(channels::Config { access, kind: Kind::Telegram(config) })
}

fn discord_channel(
    mut section: Section<'_>,
    tokens: &mut Vec<(Secret, String)>,
) -> Option<channels::Config> {
    const THREADS: [(&str, DiscordThreads); 2] =
        [("reply", DiscordThreads::Reply), ("open", DiscordThreads::Open)];
    let wanted = "the bot's token, from https://discord.com/developers/applications";
    let token = section.require("token", wanted).and_then(|value| secrets::read(&value));
    let api_url = api_url(&mut section, DISCORD_URL);
    let access = access(&mut section, &NUMBERS);
    let threads = section.ask("threads").map(|value| value.choice(&THREADS));
    take_token(&section, token.as_ref(), tokens, "Discord lets only one of them listen");
    section.finish("a channel of type discord");
    let threads = threads.unwrap_or_else(|| Some(DiscordThreads::default()))?;
    let config = DiscordConfig { token: token?, api_url: api_url?, threads };
    Some(channels::Config { access, kind: Kind::Discord(config) })
}

fn slack_channel(
    mut section: Section<'_>,
    tokens: &mut Vec<(Secret, String)>,
) -> Option<channels::Config> {
    const THREADS: [(&str, SlackThreads); 2] =
        [("thread", SlackThreads::Thread), ("channel", SlackThreads::Channel)];
    let mut token = |key, wanted, prefix, other| {
        let value = section.require(key, wanted)?;
        let token = secrets::read(&value)?;
        if token.reveal().starts_with(other) {
            value.fault(format!("must be a token that begins with {prefix}, not with {other}"));
        }
        Some(token)
    };
    let bot = token("token", "the bot's token, xoxb-…", "xoxb-", "xapp-");
    let app = token("app_token", "the app's token for Socket Mode, xapp-…", "xapp-", "xoxb-");
    let api_url = api_url(&mut section, SLACK_URL);
    let access = access(&mut section, &SLACK_IDS);
    let threads = section.ask("threads").map(|value| value.choice(&THREADS));
    for token in [&bot, &app] {
        let why = "Slack brings each event to only one of them";
        take_token(&section, token.as_ref(), tokens, why);
    }
    section.finish("a channel of type slack");
    let config = SlackConfig {
        token: bot?,
        app_token: app?,
        api_url: api_url?,
        threads: threads.unwrap_or_else(|| Some(SlackThreads::default()))?,
    };
    Some(channels::Config { access, kind: Kind::Slack(config) })
}

fn api_url(section: &mut Section<'_>, default: &str) -> Option<String> {
    match section.ask("api_url") {
        Some(value) => url(&value),
        None => Some(default.to_owned()),
    }
}

/// Notes a channel's token; two channels cannot share one, and `why` says so.
fn take_token(
    section: &Section<'_>,
    token: Option<&Secret>,
    tokens: &mut Vec<(Secret, String)>,
    why: &str,
) {
    let Some(token) = token else { return };
    let title = section.title();
    match tokens.iter().find(|(other, _)| other == token) {
        Some((_, before)) if *before == title => {
            section.fault(format!("{title} has the same token twice; there are two kinds"));
        }
        Some((_, before)) => section.fault(format!("{title} has the token of {before}; {why}")),
        None => {}
    }
    tokens.push((token.clone(), title));
}

const SLACK_IDS: Ids = Ids {
    is_id: |id| {
        id.len() > 1
            && id.starts_with(['B', 'U', 'W'])
            && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    },
    wanted: "must be a member id, which begins with U or W (in Slack: a profile, ⋮, Copy member \
             ID); a name can change hands",
};

/// The daemon's own terminal; who sits at it needs no list.
pub(super) fn terminal() -> channels::Config {
    let access = Access::local();
    channels::Config { access, kind: Kind::Terminal }
}

/// How a platform writes the ids of its accounts.
struct Ids {
    is_id: fn(&str) -> bool,
    wanted: &'static str,
}

const NUMBERS: Ids = Ids {
    is_id: |id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()),
    wanted: "must be a user id, which is a number; a name can change hands",
};

const GROUPS: [(&str, Groups); 3] =
    [("off", Groups::Off), ("mention", Groups::Mention), ("always", Groups::Always)];

fn access(section: &mut Section<'_>, ids: &Ids) -> Access {
    let default = Access::default();
    let mut list = |key, everyone: Option<&str>| {
        section.ask(key).map(|value| people(&value, everyone, ids)).unwrap_or_default()
    };
    let (owners, admins) = (list("owners", None), list("admins", None));
    let (allow, bots) = (list("allow", Some("*")), list("bots", None));
    let groups = section.ask("groups").and_then(|value| value.choice(&GROUPS));
    let chats = section.ask("chats").and_then(|value| value.table()).unwrap_or_default();
    let chats =
        chats.into_iter().filter_map(|(id, value)| Some((id.to_owned(), value.choice(&GROUPS)?)));
    let chats = chats.collect();
    let pairing = section.ask("pairing").and_then(|value| value.flag());
    Access {
        owners,
        admins,
        allow,
        groups: groups.unwrap_or(default.groups),
        chats,
        bots,
        pairing: pairing.unwrap_or(default.pairing),
    }
}

/// A platform's user ids, or `everyone`.
fn people(value: &Located<'_>, everyone: Option<&str>, ids: &Ids) -> Vec<String> {
    let entries = value.list().unwrap_or_default();
    if entries.len() > PEOPLE_MAX {
        value.fault(format!("has more than {PEOPLE_MAX} entries"));
    }
    let mut people = Vec::new();
    for entry in entries {
        let Some(id) = entry.id() else { continue };
        if (ids.is_id)(&id) || Some(id.as_str()) == everyone {
            people.push(id);
        } else if id == "*" {
            entry.fault("cannot be \"*\": name them one by one");
        } else {
            entry.fault(ids.wanted);
        }
    }
    people
}
