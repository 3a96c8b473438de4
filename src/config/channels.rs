//! The `[channels.NAME]` sections: one function for each platform, and who is let in on all of them.

use std::collections::BTreeMap;

use crate::channels::config::{
    DISCORD_URL, DiscordConfig, DiscordThreads, SLACK_URL, SlackConfig, SlackThreads, TELEGRAM_URL,
    TelegramConfig,
};
use crate::channels::{self, Kind};
use crate::people::{Access, Groups};
use crate::secret::Secret;
use crate::types::message::ChannelName;

use super::reading::{Located, Section};
use super::sections::url;
use super::{TERMINAL, secrets};

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

impl Platform {
    const fn works(&self) -> bool {
        !matches!(self, Self::NotYet(_) | Self::LeftOut(_))
    }
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
    let works = TYPES.iter().filter(|(_, platform)| platform.works());
    let words: Vec<_> = works.map(|(word, _)| *word).collect();
    let value = section.require("type", &format!("one of {}", words.join(", ")));
    let choice = |value: &Located<'_>| value.choice_among(&TYPES, Platform::works);
    let Some(platform) = value.as_ref().and_then(choice) else {
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
    let access = access(&mut section, &TELEGRAM_IDS);
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
    let access = access(&mut section, &DISCORD_IDS);
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

/// The daemon's own terminal; who sits at it needs no list.
pub(super) fn terminal() -> channels::Config {
    let access = Access::local();
    channels::Config { access, kind: Kind::Terminal }
}

/// How a platform writes its ids.
struct Ids {
    person: Form,
    bot: Form,
    /// What may be a key of `chats`.
    chat: Form,
}

/// What an id looks like; `wanted` follows the name of what is wrong.
struct Form {
    fits: fn(&str) -> bool,
    wanted: &'static str,
}

/// A positive number that is no greater is a topic's; any other is a group's that lost its minus.
const TOPIC_MAX: i64 = i32::MAX as i64;

const TELEGRAM_PERSON: Form = Form {
    fits: is_number,
    wanted: "must be a user id, which is a number, as \"12345678\" (/whoami tells it); a name can \
             change hands",
};

const TELEGRAM_IDS: Ids = Ids {
    person: TELEGRAM_PERSON,
    bot: TELEGRAM_PERSON,
    chat: Form {
        fits: |id| id.parse::<i64>().is_ok_and(|id| id <= TOPIC_MAX),
        wanted: "must be a group's id, which is a negative number, as \"-1001234567890\", or a \
                 forum topic's, as \"5\"",
    },
};

const DISCORD_PERSON: Form = Form {
    fits: is_number,
    wanted: "must be a user id, which is a number, as \"80351110224678912\" (Developer Mode, Copy \
             User ID); a name can change hands",
};

const DISCORD_IDS: Ids = Ids {
    person: DISCORD_PERSON,
    bot: DISCORD_PERSON,
    chat: Form {
        fits: is_number,
        wanted: "must be the id of a thread, a channel or a server, which is a number, as \
                 \"81384788765712384\" (Developer Mode, Copy Channel ID or Copy Server ID)",
    },
};

const SLACK_IDS: Ids = Ids {
    person: Form {
        fits: |id| is_slack_id(id, &['U', 'W']),
        wanted: "must be a member id, which begins with U or W, as \"U012ABCDEF\" (in Slack: a \
                 profile, ⋮, Copy member ID); a name can change hands",
    },
    bot: Form {
        fits: |id| is_slack_id(id, &['B', 'U', 'W']),
        wanted: "must be a bot's id, which begins with B, U or W, as \"B012ABCDEF\"; a name can \
                 change hands",
    },
    chat: Form {
        fits: |id| is_slack_id(id, &['C', 'D', 'G', 'T']),
        wanted: "must be a channel's id, which begins with C, D or G, as \"C012ABCDEF\" (in Slack: \
                 the channel's details, at the end), or a workspace's, which begins with T",
    },
};

fn is_number(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_slack_id(id: &str, begins: &[char]) -> bool {
    id.len() > 1
        && id.starts_with(begins)
        && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

const GROUPS: [(&str, Groups); 3] =
    [("off", Groups::Off), ("mention", Groups::Mention), ("always", Groups::Always)];

fn access(section: &mut Section<'_>, ids: &Ids) -> Access {
    let default = Access::default();
    let mut list = |key, everyone: Option<&str>, form| {
        section.ask(key).map(|value| people(&value, everyone, form)).unwrap_or_default()
    };
    let person = &ids.person;
    let (owners, admins) = (list("owners", None, person), list("admins", None, person));
    let (allow, bots) = (list("allow", Some("*"), person), list("bots", None, &ids.bot));
    let groups = section.ask("groups").and_then(|value| value.choice(&GROUPS));
    let chats = section.ask("chats").map(|value| chats(&value, &ids.chat)).unwrap_or_default();
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

/// When the bot answers where, by id.
fn chats(value: &Located<'_>, form: &Form) -> BTreeMap<String, Groups> {
    let Some(entries) = value.table() else {
        value.fault("must be a table, as { \"ID\" = \"always\" }");
        return BTreeMap::new();
    };
    let mut chats = BTreeMap::new();
    for (id, value) in entries {
        if !(form.fits)(id) {
            value.fault(form.wanted);
        }
        if let Some(groups) = value.choice(&GROUPS) {
            chats.insert(id.to_owned(), groups);
        }
    }
    chats
}

/// A platform's user ids, or `everyone`; as many as a config file holds (1 MiB, some 50,000).
fn people(value: &Located<'_>, everyone: Option<&str>, form: &Form) -> Vec<String> {
    let entries = value.list().unwrap_or_default();
    let mut people = Vec::new();
    for entry in entries {
        let Some(id) = entry.id() else { continue };
        if (form.fits)(&id) || Some(id.as_str()) == everyone {
            people.push(id);
        } else if id == "*" {
            entry.fault("cannot be \"*\": name them one by one");
        } else {
            entry.fault(form.wanted);
        }
    }
    people
}
