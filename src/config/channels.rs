//! The `[channels.NAME]` sections: one function for each platform, and the access rules of all of them.

use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::channels::config::{
    DISCORD_URL, DiscordConfig, DiscordThreads, SLACK_URL, SlackConfig, SlackThreads, TELEGRAM_URL,
    TelegramConfig,
};
use crate::channels::{self, ChannelKind};
use crate::config::reading::NamedSection;
use crate::people::{Access, Groups};
use crate::secret::Secret;
use crate::types::message::ChannelName;

use super::deserializer::word;
use super::fault::FaultPlace;
use super::hints::none_of;
use super::ids::{DISCORD_IDS, Ids, SLACK_IDS, TELEGRAM_IDS, chats, people};
use super::keys::KeysByKind;
use super::reading::{ConfigSource, Section};
use super::values::{At, Flag, Id, Text, Url};
use crate::config::secrets::{self, UnresolvedSecret};

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
    r#type: Option<Text<PlatformSection>>,
    /// A secret: the bot's token. On Telegram it is from @BotFather; on Slack it begins with xoxb-.
    token: Option<At<UnresolvedSecret>>,
    /// A secret: the token of the Slack app, with the scope connections:write. It begins with xapp-.
    app_token: Option<At<UnresolvedSecret>>,
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

const LIMITED: KeysByKind = &[
    (
        &["token", "api_url", "owners", "admins", "allow", "groups", "chats", "bots", "pairing"],
        &["telegram", "discord", "slack"],
    ),
    (&["app_token"], &["slack"]),
    (&["threads"], &["discord", "slack"]),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlatformSection {
    Telegram,
    Discord,
    Slack,
    Terminal,
    /// It has a section of its own, `[gateway]`.
    Web,
}

/// The platforms by name, each with true if this build has it.
const PLATFORMS: [(&str, PlatformSection, bool); 5] = [
    ("telegram", PlatformSection::Telegram, cfg!(feature = "telegram")),
    ("discord", PlatformSection::Discord, cfg!(feature = "discord")),
    ("slack", PlatformSection::Slack, cfg!(feature = "slack")),
    ("terminal", PlatformSection::Terminal, true),
    ("web", PlatformSection::Web, false),
];

fn offered() -> Vec<&'static str> {
    PLATFORMS.iter().filter(|(.., is_built)| *is_built).map(|(word, ..)| *word).collect()
}

impl FromStr for PlatformSection {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = PLATFORMS.iter().find(|(known, ..)| *known == word);
        known.map(|(_, platform, _)| *platform).ok_or_else(|| none_of(word, &offered()))
    }
}

/// The tokens of the channels so far, with their titles.
type ChannelTokens = Vec<(Secret, String)>;

/// Returns all `[channels.NAME]` without faults, and the number of sections.
pub(super) fn channels(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, ChannelSection>,
) -> (BTreeMap<ChannelName, channels::Config>, usize) {
    let sections = source.named("channels", sections);
    let count = sections.len();
    let mut tokens = ChannelTokens::new();
    let configs = sections.into_iter().filter_map(|NamedSection { name, place, read: section }| {
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
        tokens: &mut ChannelTokens,
    ) -> Option<channels::Config> {
        let wanted = format!("one of {}", offered().join(", "));
        let platform = place.require(self.r#type.as_ref(), "type", &wanted)?.0;
        let known = PLATFORMS.iter().find(|(_, known, _)| *known == platform);
        let (word, _, is_built) = known.copied()?;
        if platform == PlatformSection::Web {
            place.fault("the page in the browser is not a channel: write [gateway]");
            return None;
        }
        if !is_built {
            place.fault(format!(
                "this program was built without {word}: build it with the Cargo feature {word}"
            ));
            return None;
        }
        if name == TERMINAL && platform != PlatformSection::Terminal {
            let own = "is the daemon's own terminal; choose another name";
            place.fault(format!("`{TERMINAL}` {own}"));
            return None;
        }
        place.allow_only(LIMITED, word, &format!("a channel of type {word}"));
        match platform {
            PlatformSection::Terminal | PlatformSection::Web => Some(terminal()),
            PlatformSection::Discord => self.discord(place, tokens),
            PlatformSection::Slack => self.slack(place, tokens),
            PlatformSection::Telegram => self.telegram(place, tokens),
        }
    }

    fn telegram(
        self,
        place: &Section<'_, '_>,
        tokens: &mut ChannelTokens,
    ) -> Option<channels::Config> {
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
        Some(channels::Config { access, kind: ChannelKind::Telegram(config) })
    }

    fn discord(
        self,
        place: &Section<'_, '_>,
        tokens: &mut ChannelTokens,
    ) -> Option<channels::Config> {
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
        Some(channels::Config { access, kind: ChannelKind::Discord(config) })
    }

    fn slack(
        self,
        place: &Section<'_, '_>,
        tokens: &mut ChannelTokens,
    ) -> Option<channels::Config> {
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
                let message =
                    format!("must be a token that begins with {prefix}, not with {other}");
                place.source.refuse(written, message);
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
        Some(channels::Config { access, kind: ChannelKind::Slack(config) })
    }

    fn api_url(&self, place: &Section<'_, '_>, default: &str) -> Option<String> {
        let given = self.api_url.as_ref().map(|url| url.0.0.clone());
        place.or(given, "api_url", default.to_owned())
    }

    fn access(self, source: &ConfigSource<'_>, ids: &Ids) -> Access {
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

fn token(
    place: &Section<'_, '_>,
    written: Option<&At<UnresolvedSecret>>,
    wanted: &str,
) -> Option<Secret> {
    secrets::read(place.source, place.require(written, "token", wanted)?)
}

/// Records a channel's token. Reports a fault if another channel has it; `why` explains the fault.
fn take_token(
    place: &Section<'_, '_>,
    token: Option<&Secret>,
    tokens: &mut ChannelTokens,
    why: &str,
) {
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

/// Returns the config of the daemon's own terminal, whose user needs no list.
pub(super) fn terminal() -> channels::Config {
    let access = Access::local();
    channels::Config { access, kind: ChannelKind::Terminal }
}

const SLACK_BOT_TOKEN: &str = "SLACK_BOT_TOKEN";
const SLACK_APP_TOKEN: &str = "SLACK_APP_TOKEN";
const DISCORD_TOKEN: &str = "DISCORD_BOT_TOKEN";
const TELEGRAM_TOKEN: &str = "TELEGRAM_BOT_TOKEN";

/// Returns the channels whose token variables are set, for a config that names no channel.
pub(super) fn from_environment(source: &ConfigSource<'_>) -> Vec<(ChannelName, channels::Config)> {
    type Read = fn(&ConfigSource<'_>) -> Option<ChannelKind>;
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

fn discord(source: &ConfigSource<'_>) -> Option<ChannelKind> {
    source.env.raw(DISCORD_TOKEN)?;
    let token = secrets::of_variable(source, DISCORD_TOKEN)?;
    let threads = DiscordThreads::default();
    Some(ChannelKind::Discord(DiscordConfig { token, api_url: DISCORD_URL.into(), threads }))
}

fn telegram(source: &ConfigSource<'_>) -> Option<ChannelKind> {
    source.env.raw(TELEGRAM_TOKEN)?;
    let token = secrets::of_variable(source, TELEGRAM_TOKEN)?;
    Some(ChannelKind::Telegram(TelegramConfig { token, api_url: TELEGRAM_URL.into() }))
}

/// Returns Slack's config if both of its tokens are set. Reports a fault if only one is.
fn slack(source: &ConfigSource<'_>) -> Option<ChannelKind> {
    let is_set = |variable| source.env.raw(variable).is_some();
    let (set, missing) = match (is_set(SLACK_BOT_TOKEN), is_set(SLACK_APP_TOKEN)) {
        (false, false) => return None,
        (true, true) => {
            let token = secrets::of_variable(source, SLACK_BOT_TOKEN);
            let app_token = secrets::of_variable(source, SLACK_APP_TOKEN);
            return Some(ChannelKind::Slack(SlackConfig {
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
        FaultPlace::Environment,
        format!("{set} is set and {missing} is not; Slack needs both (xoxb-… and xapp-…)"),
    );
    None
}
