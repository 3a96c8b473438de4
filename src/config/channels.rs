//! The `[channels.NAME]` sections: one function for each platform, and who is let in on all of them.

use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::channels::config::{
    DISCORD_URL, DiscordConfig, DiscordThreads, SLACK_URL, SlackConfig, SlackThreads, TELEGRAM_URL,
    TelegramConfig,
};
use crate::channels::{self, Kind};
use crate::people::{Access, Groups};
use crate::secret::Secret;
use crate::types::message::ChannelName;

use super::deserializer::word;
use super::fault::Place;
use super::hints::none_of;
use super::keys::Limited;
use super::reading::{Section, Source};
use super::values::{At, Flag, Id, Text, Url};
use crate::config::secrets::{self, Written};

/// The name of the daemon's own terminal, which is always there.
pub const TERMINAL: &str = "terminal";

/// A place where people talk to it. The name is yours; there can be many, also of one type. With no
/// channel in the config file, TELEGRAM_BOT_TOKEN starts one, so does DISCORD_BOT_TOKEN, and so do
/// SLACK_BOT_TOKEN and SLACK_APP_TOKEN together. The daemon's own terminal is always there, as the
/// channel `terminal`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["type", "token"], "limited" = LIMITED))]
pub(super) struct ChannelSection {
    /// telegram | discord | slack | terminal (it has no other keys).
    r#type: Option<Text<Platform>>,
    /// A secret: the bot's token. On Telegram it is from @BotFather; on Slack it begins with xoxb-.
    token: Option<At<Written>>,
    /// A secret: the token of the Slack app, with the scope connections:write. It begins with xapp-.
    app_token: Option<At<Written>>,
    /// Another address of the platform: a Bot API server of your own, or a proxy. http:// is allowed
    /// for this machine only. Default: https://api.telegram.org, https://discord.com or
    /// https://slack.com/api, by type.
    api_url: Option<Text<Url>>,
    /// Ids of people with role owner, as strings or numbers. On Telegram they are numbers; /whoami
    /// tells theirs to those who are let in, `peacrab pair list` those of all who ask. Default: none.
    owners: Vec<At<Id>>,
    /// Ids of people with role admin: in groups they may stop any turn and close the conversation,
    /// and they may have messages sent to other chats. Default: none.
    admins: Vec<At<Id>>,
    /// Ids of further people, with role user; ["*"] lets everyone in, as guests. As many as fit into
    /// the config file, which may have 1 MiB. Default: none.
    allow: Vec<At<Id>>,
    /// When it answers in groups: off | mention (of it, or a reply to it) | always. On Telegram,
    /// always needs privacy mode turned off (/setprivacy at @BotFather); so does hearing what was
    /// said before.
    groups: Groups,
    /// The same for single groups (negative numbers) and forum topics, by id. People who speak in a
    /// listed one are let in there, as guests; in other groups only people with a role are heard.
    /// Default: none.
    chats: BTreeMap<String, At<Groups>>,
    /// Ids of other bots that may speak to it; all others are ignored. After five messages of bots in
    /// a row it waits for a person. Default: none.
    bots: Vec<At<Id>>,
    /// If true, a stranger's private message gets a code, with which `peacrab pair approve CODE` lets
    /// them in; the first one becomes the owner, if there is none.
    pairing: Flag<true>,
    /// The place of an answer in a channel. On Discord: reply (there, as a reply) | open (in a thread
    /// that is opened from the question). On Slack: thread (each question opens one, and each is a
    /// conversation) | channel (threads that people open are conversations of their own). Default:
    /// reply on Discord, thread on Slack.
    threads: Option<At<String>>,
}

const LIMITED: Limited = &[
    (
        &["token", "api_url", "owners", "admins", "allow", "groups", "chats", "bots", "pairing"],
        &["telegram", "discord", "slack"],
    ),
    (&["app_token"], &["slack"]),
    (&["threads"], &["discord", "slack"]),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Platform {
    Telegram,
    Discord,
    Slack,
    Terminal,
    /// In a later version.
    Web,
}

/// The platforms by their words, each with true if this build has it.
const PLATFORMS: [(&str, Platform, bool); 5] = [
    ("telegram", Platform::Telegram, cfg!(feature = "telegram")),
    ("discord", Platform::Discord, cfg!(feature = "discord")),
    ("slack", Platform::Slack, cfg!(feature = "slack")),
    ("terminal", Platform::Terminal, true),
    ("web", Platform::Web, false),
];

fn offered() -> Vec<&'static str> {
    PLATFORMS.iter().filter(|(.., is_built)| *is_built).map(|(word, ..)| *word).collect()
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = PLATFORMS.iter().find(|(known, ..)| *known == word);
        known.map(|(_, platform, _)| *platform).ok_or_else(|| none_of(word, &offered()))
    }
}

/// The tokens of the channels so far, with their titles.
type Tokens = Vec<(Secret, String)>;

/// All `[channels.NAME]` without faults, and how many sections there are.
pub(super) fn channels(
    source: &Source<'_>,
    sections: BTreeMap<String, ChannelSection>,
) -> (BTreeMap<ChannelName, channels::Config>, usize) {
    let sections = source.named("channels", sections);
    let count = sections.len();
    let mut tokens = Tokens::new();
    let configs = sections.into_iter().filter_map(|(name, place, section)| {
        let config = section.config(&name, &place, &mut tokens)?;
        Some((name.as_str().into(), config))
    });
    (configs.collect(), count)
}

impl ChannelSection {
    fn config(
        self,
        name: &str,
        place: &Section<'_, '_>,
        tokens: &mut Tokens,
    ) -> Option<channels::Config> {
        let wanted = format!("one of {}", offered().join(", "));
        let platform = place.require(self.r#type.as_ref(), "type", &wanted)?.0;
        let known = PLATFORMS.iter().find(|(_, known, _)| *known == platform);
        let (word, _, is_built) = known.copied()?;
        if platform == Platform::Web {
            place.fault(format!("this version has no {word} channels yet"));
            return None;
        }
        if !is_built {
            place.fault(format!(
                "this program was built without {word}; build it with the Cargo feature {word}"
            ));
            return None;
        }
        if name == TERMINAL && platform != Platform::Terminal {
            let own = "is the daemon's own terminal; choose another name";
            place.fault(format!("`{TERMINAL}` {own}"));
            return None;
        }
        place.allow_only(LIMITED, word, &format!("a channel of type {word}"));
        match platform {
            Platform::Terminal | Platform::Web => Some(terminal()),
            Platform::Discord => self.discord(place, tokens),
            Platform::Slack => self.slack(place, tokens),
            Platform::Telegram => self.telegram(place, tokens),
        }
    }

    fn telegram(self, place: &Section<'_, '_>, tokens: &mut Tokens) -> Option<channels::Config> {
        let token = token(place, self.token.as_ref(), "the bot's token, from @BotFather");
        take_token(place, token.as_ref(), tokens, "Telegram lets only one of them listen");
        let api_url = self.api_url(place, TELEGRAM_URL);
        let access = self.access(place.source, &TELEGRAM_IDS);
        let config = TelegramConfig { token: token?, api_url: api_url? };
        Some(channels::Config { access, kind: Kind::Telegram(config) })
    }

    fn discord(self, place: &Section<'_, '_>, tokens: &mut Tokens) -> Option<channels::Config> {
        let wanted = "the bot's token, from https://discord.com/developers/applications";
        let token = token(place, self.token.as_ref(), wanted);
        take_token(place, token.as_ref(), tokens, "Discord lets only one of them listen");
        let api_url = self.api_url(place, DISCORD_URL);
        let threads = self.threads.as_ref().and_then(|it| word(place.source, it));
        let access = self.access(place.source, &DISCORD_IDS);
        let threads = threads.unwrap_or_default();
        let config = DiscordConfig { token: token?, api_url: api_url?, threads };
        Some(channels::Config { access, kind: Kind::Discord(config) })
    }

    fn slack(self, place: &Section<'_, '_>, tokens: &mut Tokens) -> Option<channels::Config> {
        let bot = self.token.as_ref();
        let bot_token = token(place, bot, "the bot's token, xoxb-…");
        let app = place.require(
            self.app_token.as_ref(),
            "app_token",
            "the app's token for Socket Mode, xapp-…",
        );
        let app_token = app.and_then(|written| secrets::read(place.source, written));
        for (written, token, prefix, other) in
            [(bot, &bot_token, "xoxb-", "xapp-"), (app, &app_token, "xapp-", "xoxb-")]
        {
            let is_other = token.as_ref().is_some_and(|token| token.reveal().starts_with(other));
            if let Some(written) = written.filter(|_| is_other) {
                let words = format!("must be a token that begins with {prefix}, not with {other}");
                place.source.refuse(written, words);
            }
            let why = "Slack brings each event to only one of them";
            take_token(place, token.as_ref(), tokens, why);
        }
        let api_url = self.api_url(place, SLACK_URL);
        let threads = self.threads.as_ref().and_then(|it| word(place.source, it));
        let access = self.access(place.source, &SLACK_IDS);
        let config = SlackConfig {
            token: bot_token?,
            app_token: app_token?,
            api_url: api_url?,
            threads: threads.unwrap_or_default(),
        };
        Some(channels::Config { access, kind: Kind::Slack(config) })
    }

    fn api_url(&self, place: &Section<'_, '_>, default: &str) -> Option<String> {
        let given = self.api_url.as_ref().map(|url| url.0.0.clone());
        place.or(given, "api_url", default.to_owned())
    }

    fn access(self, source: &Source<'_>, ids: &Ids) -> Access {
        let list = |given, everyone, form| people(source, given, everyone, form);
        Access {
            owners: list(self.owners, None, &ids.person),
            admins: list(self.admins, None, &ids.person),
            allow: list(self.allow, Some("*"), &ids.person),
            groups: self.groups,
            chats: chats(source, self.chats, &ids.chat),
            bots: list(self.bots, None, &ids.bot),
            pairing: self.pairing.0,
        }
    }
}

fn token(place: &Section<'_, '_>, written: Option<&At<Written>>, wanted: &str) -> Option<Secret> {
    secrets::read(place.source, place.require(written, "token", wanted)?)
}

/// Notes a channel's token; two channels cannot share one, and `why` explains that.
fn take_token(place: &Section<'_, '_>, token: Option<&Secret>, tokens: &mut Tokens, why: &str) {
    let Some(token) = token else { return };
    let title = place.title();
    match tokens.iter().find(|(other, _)| other == token) {
        Some((_, before)) if *before == title => {
            place.fault(format!("{title} has the same token twice; there are two kinds"));
        }
        Some((_, before)) => place.fault(format!("{title} has the token of {before}; {why}")),
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

/// When the bot answers where, by id.
fn chats(
    source: &Source<'_>,
    chats: BTreeMap<String, At<Groups>>,
    form: &Form,
) -> BTreeMap<String, Groups> {
    let checked = chats.into_iter().map(|(id, groups)| {
        if !(form.fits)(&id) {
            source.refuse(&groups, form.wanted);
        }
        (id, groups.value)
    });
    checked.collect()
}

/// A platform's user ids, or `everyone`; as many as a config file holds (1 MiB, some 50,000).
fn people(
    source: &Source<'_>,
    ids: Vec<At<Id>>,
    everyone: Option<&str>,
    form: &Form,
) -> Vec<String> {
    for entry in &ids {
        let id = &*entry.value.0;
        match (form.fits)(id) || Some(id) == everyone {
            true => {}
            false if id == "*" => source.refuse(entry, "cannot be \"*\": name them one by one"),
            false => source.refuse(entry, form.wanted),
        }
    }
    ids.into_iter().map(|entry| entry.value.0).collect()
}

const SLACK_BOT_TOKEN: &str = "SLACK_BOT_TOKEN";
const SLACK_APP_TOKEN: &str = "SLACK_APP_TOKEN";
const DISCORD_TOKEN: &str = "DISCORD_BOT_TOKEN";
const TELEGRAM_TOKEN: &str = "TELEGRAM_BOT_TOKEN";

/// The channels whose tokens are set; for a config that names none.
pub(super) fn of_environment(source: &Source<'_>) -> Vec<(ChannelName, channels::Config)> {
    type Read = fn(&Source<'_>) -> Option<Kind>;
    let platforms: [(&str, &str, bool, Read); 3] = [
        ("Discord", DISCORD_TOKEN, cfg!(feature = "discord"), discord),
        ("Slack", SLACK_BOT_TOKEN, cfg!(feature = "slack"), slack),
        ("Telegram", TELEGRAM_TOKEN, cfg!(feature = "telegram"), telegram),
    ];
    let started = platforms.into_iter().filter_map(|(platform, variable, is_built, read)| {
        if !is_built {
            if source.env.raw(variable).is_some() {
                source.note(format!("{variable} is not used: this was built without {platform}"));
            }
            return None;
        }
        let config = channels::Config { access: Access::default(), kind: read(source)? };
        Some((platform.to_lowercase().as_str().into(), config))
    });
    started.collect()
}

fn discord(source: &Source<'_>) -> Option<Kind> {
    source.env.raw(DISCORD_TOKEN)?;
    let token = secrets::of_variable(source, DISCORD_TOKEN)?;
    let threads = DiscordThreads::default();
    Some(Kind::Discord(DiscordConfig { token, api_url: DISCORD_URL.into(), threads }))
}

fn telegram(source: &Source<'_>) -> Option<Kind> {
    source.env.raw(TELEGRAM_TOKEN)?;
    let token = secrets::of_variable(source, TELEGRAM_TOKEN)?;
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
