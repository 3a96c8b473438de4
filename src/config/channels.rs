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

/// A chat platform on which people talk to the bot. You choose the name. There can be many, even of
/// one type. If the config file has no channel, TELEGRAM_BOT_TOKEN starts one, and so do
/// DISCORD_BOT_TOKEN, and SLACK_BOT_TOKEN with SLACK_APP_TOKEN. The daemon's own terminal is always
/// there, as the channel `terminal`.
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
    /// Another address of the platform: your own Bot API server, or a proxy. http:// is allowed for
    /// this machine only. Default: https://api.telegram.org, https://discord.com or
    /// https://slack.com/api, by type.
    api_url: Option<Text<Url>>,
    /// Ids of people with the role owner, as strings or numbers. On Telegram they are numbers.
    /// /whoami shows them to people with access, and `peacrab pair list` shows those of all open
    /// requests. Default: none.
    owners: Vec<At<Id>>,
    /// Ids of people with the role admin. In groups they can stop any turn and close the
    /// conversation. They can have messages sent to other chats. Default: none.
    admins: Vec<At<Id>>,
    /// Ids of more people, with the role user. ["*"] gives everyone access, as guests. The config
    /// file can have 1 MiB, which limits the list. Default: none.
    allow: Vec<At<Id>>,
    /// The messages that it answers in groups: off (none) | mention (a mention of it, or a reply to
    /// it) | always (all). On Telegram, always needs privacy mode turned off (/setprivacy at
    /// @BotFather), and so does reading earlier messages as context.
    groups: Groups,
    /// The same for single groups (negative numbers) and forum topics, by id. Everyone who writes
    /// in a listed one has access there, as a guest. In other groups, only people with a role have.
    /// Default: none.
    chats: BTreeMap<String, At<Groups>>,
    /// Ids of other bots that can talk to it. All others are ignored. After five messages of bots
    /// in a row it waits for a person. Default: none.
    bots: Vec<At<Id>>,
    /// If true, an unknown person who writes in private gets a code. `peacrab pair approve CODE`
    /// gives them access. The first one becomes the owner, if there is none.
    pairing: Flag<true>,
    /// The place of an answer in a channel. On Discord: reply (in the channel, as a reply) | open
    /// (in a new thread of the question). On Slack: thread (each question opens a thread, and each
    /// thread is a conversation) | channel (in the channel; threads that people open are
    /// conversations of their own). Default: reply on Discord, thread on Slack.
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
            place.fault(format!("this version does not support {word} channels yet"));
            return None;
        }
        if !is_built {
            place.fault(format!(
                "this program was built without {word}: build it with the Cargo feature {word}"
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
        take_token(
            place,
            token.as_ref(),
            tokens,
            "Telegram allows only one listener for each token",
        );
        let api_url = self.api_url(place, TELEGRAM_URL);
        let access = self.access(place.source, &TELEGRAM_IDS);
        let config = TelegramConfig { token: token?, api_url: api_url? };
        Some(channels::Config { access, kind: Kind::Telegram(config) })
    }

    fn discord(self, place: &Section<'_, '_>, tokens: &mut Tokens) -> Option<channels::Config> {
        let wanted = "the bot's token, from https://discord.com/developers/applications";
        let token = token(place, self.token.as_ref(), wanted);
        take_token(
            place,
            token.as_ref(),
            tokens,
            "Discord allows only one listener for each token",
        );
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
            let why = "Slack sends each event to only one of them";
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
            place.fault(format!("{title} has the same token twice: `token` begins with xoxb-, `app_token` with xapp-"));
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
    wanted: "must be a user id, which is a number, as \"12345678\" (/whoami shows it); a name can \
             change its owner",
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
             User ID); a name can change its owner",
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
                 profile, ⋮, Copy member ID); a name can change its owner",
    },
    bot: Form {
        fits: |id| is_slack_id(id, &['B', 'U', 'W']),
        wanted: "must be a bot's id, which begins with B, U or W, as \"B012ABCDEF\"; a name can \
                 change its owner",
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
