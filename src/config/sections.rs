//! What each key of the config means: from located TOML to the configs of the modules.

use std::collections::BTreeMap;

use crate::channels::{self, intake, slack, telegram};
use crate::message::ChannelName;
use crate::people::{Access, Groups};
use crate::provider::{self, transcription};
use crate::secret::Secret;

use super::reading::{Located, Section, nearest};
use super::{AgentConfig, MB, TERMINAL, secrets};

pub(super) const ANTHROPIC_URL: &str = "https://api.anthropic.com";
pub(super) const OPENAI_URL: &str = "https://api.openai.com/v1";
pub(super) const SLACK_URL: &str = "https://slack.com/api";
pub(super) const TELEGRAM_URL: &str = "https://api.telegram.org";

/// The longest answer to ask for: a file of a thousand lines, or long reasoning and what comes of it.
pub(super) const TOKENS_MAX: u32 = 16_384;

/// More than any model gives in one answer.
const TOKENS_MAX_MOST: u32 = 1_000_000;

/// More than any platform sends, and than a small board's disk has.
const FILE_MB_MOST: u32 = 2_000;
const INBOX_MB_MOST: u32 = 1_000_000;

/// More people than that are a matter for `*`.
const PEOPLE_MAX: usize = 1000;

/// A named config that was read; `None` for one with faults, whose name still exists.
pub(super) type Named<T> = Vec<(String, Option<T>)>;

/// `[agent]`; its providers must be among `names`, and are these in their order by default.
pub(super) fn agent(top: &mut Section<'_>, names: &[&str]) -> AgentConfig {
    let all = || names.iter().map(|&name| name.to_owned()).collect();
    let Some(mut section) = top.section("agent") else {
        return AgentConfig { providers: all(), ..AgentConfig::default() };
    };
    let default = AgentConfig::default();
    let mut number = |key, most: u32, default| {
        let number = section.ask(key).and_then(|value| value.number(1..=most));
        number.map_or(default, |number| number as usize)
    };
    let steps_max = number("steps_max", 100, default.steps_max);
    let turns_max = number("turns_max", 256, default.turns_max);
    let waiting_max = number("waiting_max", 10_000, default.waiting_max);
    let providers = section.ask("providers").and_then(|value| order(&value, names));
    section.finish("the agent");
    AgentConfig { providers: providers.unwrap_or_else(all), steps_max, turns_max, waiting_max }
}

fn order(value: &Located<'_>, names: &[&str]) -> Option<Vec<String>> {
    let entries = value.list()?;
    if entries.is_empty() {
        value.fault("is empty; leave it out to use all providers");
    }
    let mut order: Vec<String> = Vec::new();
    for entry in entries {
        let Some(name) = entry.text() else { continue };
        if !names.contains(&name) {
            let hint = match nearest(name, names.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("there are: {}", names.join(", ")),
            };
            entry.fault(format!("names a provider that is not there; {hint}"));
        } else if order.iter().any(|before| before == name) {
            entry.fault(format!("names `{name}` a second time"));
        } else {
            order.push(name.to_owned());
        }
    }
    Some(order)
}

/// All `[providers.NAME]`.
pub(super) fn providers(top: &mut Section<'_>) -> Named<provider::Config> {
    let sections = top.named("providers");
    sections.into_iter().map(|(name, section)| (name.to_owned(), provider(section))).collect()
}

fn provider(mut section: Section<'_>) -> Option<provider::Config> {
    use provider::Kind::{Anthropic, OpenAi, Rehearsal};
    const TYPES: [(&str, provider::Kind); 3] =
        [("anthropic", Anthropic), ("openai", OpenAi), ("rehearsal", Rehearsal)];
    let kind = section.require("type", "one of anthropic, openai, rehearsal");
    let Some(kind) = kind.and_then(|value| value.choice(&TYPES)) else {
        section.finish_of_any_kind();
        return None;
    };
    let (word, vendor_url) = match kind {
        Anthropic => ("anthropic", ANTHROPIC_URL),
        OpenAi => ("openai", OPENAI_URL),
        Rehearsal => {
            section.finish("a provider of type rehearsal");
            return Some(super::rehearsal());
        }
    };
    let model = section.require("model", "the model's name, as its vendor writes it");
    let model = model.and_then(|value| value.text()).map(str::to_owned);
    let base_url = match section.ask("base_url") {
        Some(value) => url(&value),
        None => Some(vendor_url.to_owned()),
    };
    let api_key = if base_url.as_deref() == Some(vendor_url) {
        section
            .require("api_key", &format!("{vendor_url} wants one"))
            .map(|value| secrets::read(&value))
    } else {
        section.ask("api_key").map(|value| secrets::read(&value))
    };
    let tokens_max = match section.ask("max_tokens") {
        Some(value) => value.number(1..=TOKENS_MAX_MOST).map(Some),
        // Other servers know best how much room their model has.
        None => Some((base_url.as_deref() == Some(vendor_url)).then_some(TOKENS_MAX)),
    };
    let images = section.ask("images").and_then(|value| value.flag());
    let images = images.unwrap_or(kind == Anthropic || base_url.as_deref() == Some(OPENAI_URL));
    section.finish(&format!("a provider of type {word}"));
    // A key that could not be read is a fault, one that is absent here is none.
    let api_key = match api_key {
        Some(read) => Some(read?),
        None => None,
    };
    Some(provider::Config {
        kind,
        model: model?,
        api_key,
        base_url: base_url?,
        tokens_max: tokens_max?,
        images,
    })
}

/// `[media]`
pub(super) fn media(top: &mut Section<'_>) -> intake::Limits {
    let default = intake::Limits::default();
    let Some(mut section) = top.section("media") else { return default };
    let mut megabytes = |key, most: u32, default| {
        let number = section.ask(key).and_then(|value| value.number(1..=most));
        number.map_or(default, |number| u64::from(number) * MB)
    };
    let file_max = megabytes("file_max_mb", FILE_MB_MOST, default.file_max);
    let inbox_max = megabytes("inbox_max_mb", INBOX_MB_MOST, default.inbox_max);
    if inbox_max < file_max {
        section.fault("`inbox_max_mb` in [media] must not be less than `file_max_mb`");
    }
    section.finish("files");
    intake::Limits { file_max, inbox_max, ..default }
}

/// `[transcription]`
pub(super) fn transcription(top: &mut Section<'_>) -> Option<transcription::Config> {
    let mut section = top.section("transcription")?;
    let base_url = match section.ask("base_url") {
        Some(value) => url(&value),
        None => Some(OPENAI_URL.to_owned()),
    };
    let model = section.require("model", "the model's name, such as whisper-1");
    let model = model.and_then(|value| value.text()).map(str::to_owned);
    let api_key = match base_url.as_deref() {
        Some(OPENAI_URL) => section.require("api_key", &format!("{OPENAI_URL} wants one")),
        _ => section.ask("api_key"),
    };
    let api_key = api_key.map(|value| secrets::read(&value));
    let language = section.ask("language").and_then(|value| language(&value));
    section.finish("transcription");
    let api_key = match api_key {
        Some(read) => Some(read?),
        None => None,
    };
    Some(transcription::Config { base_url: base_url?, model: model?, api_key, language })
}

fn language(value: &Located<'_>) -> Option<String> {
    let text = value.text()?;
    let is_code = (2..=3).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_lowercase());
    if !is_code {
        value.fault("must be a language's code of two or three letters, such as \"de\"");
    }
    is_code.then(|| text.to_owned())
}

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
    Slack,
    Telegram,
    Terminal,
    NotBuilt(&'static str),
}

/// `tokens` are those of the channels before, with their titles.
fn channel(
    name: &str,
    mut section: Section<'_>,
    tokens: &mut Vec<(Secret, String)>,
) -> Option<channels::Config> {
    const TYPES: [(&str, Platform); 5] = [
        ("telegram", Platform::Telegram),
        ("terminal", Platform::Terminal),
        ("discord", Platform::NotBuilt("discord")),
        ("slack", Platform::Slack),
        ("web", Platform::NotBuilt("web")),
    ];
    let value = section.require("type", "one of telegram, slack, terminal");
    let Some(platform) = value.as_ref().and_then(|value| value.choice(&TYPES)) else {
        section.finish_of_any_kind();
        return None;
    };
    match platform {
        Platform::NotBuilt(word) => {
            section.fault(format!("this version has no {word} channels yet"));
            None
        }
        Platform::Terminal => {
            section.finish("a channel of type terminal");
            Some(terminal())
        }
        Platform::Slack | Platform::Telegram if name == TERMINAL => {
            section
                .fault(format!("`{TERMINAL}` is the daemon's own terminal; choose another name"));
            None
        }
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
    let config = telegram::Config { token: token?, api_url: api_url? };
    Some(channels::Config { access, kind: channels::Kind::Telegram(config) })
}

fn slack_channel(
    mut section: Section<'_>,
    tokens: &mut Vec<(Secret, String)>,
) -> Option<channels::Config> {
    const THREADS: [(&str, slack::Threads); 2] =
        [("thread", slack::Threads::Thread), ("channel", slack::Threads::Channel)];
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
    let config = slack::Config {
        token: bot?,
        app_token: app?,
        api_url: api_url?,
        threads: threads.unwrap_or_else(|| Some(slack::Threads::default()))?,
    };
    Some(channels::Config { access, kind: channels::Kind::Slack(config) })
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
    channels::Config { access, kind: channels::Kind::Terminal }
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

/// An address to send secrets to: encrypted, or on this machine. Without a slash at the end.
fn url(value: &Located<'_>) -> Option<String> {
    let text = value.text()?;
    let Ok(url) = url::Url::parse(text) else {
        value.fault("must be an address that begins with https://");
        return None;
    };
    let here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    let wrong = match url.scheme() {
        "https" | "http" if !url.username().is_empty() || url.password().is_some() => {
            Some("must not hold a name or password")
        }
        "https" | "http" if url.query().is_some() || url.fragment().is_some() => {
            Some("must end with its path: no ? or #")
        }
        "https" => None,
        "http" if here => None,
        "http" => Some("must begin with https://; http:// is for this machine only (127.0.0.1)"),
        _ => Some("must begin with https://"),
    };
    match wrong {
        Some(wrong) => {
            value.fault(wrong);
            None
        }
        None => Some(url.as_str().trim_end_matches('/').to_owned()),
    }
}
