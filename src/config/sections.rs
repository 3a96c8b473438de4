//! What each key of the config means: from located TOML to the configs of the modules.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono_tz::Tz;

use crate::channels::intake;
use crate::conversation::asks::{Approvals, Asking, OnForeign};
use crate::hooks::Hook;
use crate::http::is_loopback;
use crate::people::Role;
use crate::provider::{self, transcription};
use crate::tasks::schedule;
use crate::types::event;
use crate::types::session::{Finish, QueueMode};

use super::reading::{Located, Section, nearest};
use super::{AgentConfig, MB, secrets};

pub(super) const ANTHROPIC_URL: &str = "https://api.anthropic.com";
pub(super) const OPENAI_URL: &str = "https://api.openai.com/v1";

/// The longest answer to ask for: a file of a thousand lines, or long reasoning and what comes of it.
pub(super) const TOKENS_MAX: u32 = 16_384;

/// More than any model gives in one answer.
const TOKENS_MAX_MOST: u32 = 1_000_000;

/// The least with which there is room for the prompt itself, and more than any model has.
const CONTEXT_LEAST: u32 = 4_096;
const CONTEXT_MOST: u32 = 20_000_000;

/// More than any platform sends, and than a small board's disk has.
const FILE_MB_MOST: u32 = 2_000;
const INBOX_MB_MOST: u32 = 1_000_000;

/// A named config that was read; `None` for one with faults, whose name still exists.
pub(super) type Named<T> = Vec<(String, Option<T>)>;

/// Longer is no hook; it would hold up others.
const HOOK_SECONDS_MOST: u32 = 600;
const HOOK_SECONDS: u32 = 10;

/// A week; the conversation waits meanwhile.
const MINUTES_MOST: u32 = 7 * 24 * 60;

/// What a hook is told of its surroundings.
const HOOK_VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// `[agent]`; its providers must be among `names`, and are these in their order by default.
/// Also what it names as `mcp_file`.
pub(super) fn agent<'a>(
    top: &mut Section<'a>,
    names: &[&str],
) -> (AgentConfig, Option<Located<'a>>) {
    let all = || names.iter().map(|&name| name.to_owned()).collect();
    let Some(mut section) = top.section("agent") else {
        return (AgentConfig { providers: all(), ..AgentConfig::default() }, None);
    };
    let default = AgentConfig::default();
    let mut number = |key, most: u32, default| {
        let number = section.ask(key).and_then(|value| value.number(1..=most));
        number.map_or(default, |number| number as usize)
    };
    let steps_max = number("steps_max", 100, default.steps_max);
    let subagent_steps_max = number("subagent_steps_max", 100, default.subagent_steps_max);
    let turns_max = number("turns_max", 256, default.turns_max);
    let waiting_max = number("waiting_max", 10_000, default.waiting_max);
    let providers = section.ask("providers").and_then(|value| order(&value, "provider", names));
    let summary_provider = section.ask("summary_provider").and_then(|value| one(&value, names));
    let queue = section.ask("queue").and_then(|value| value.choice(QueueMode::CHOICES));
    let queue = queue.unwrap_or(default.queue);
    let timezone = section.ask("timezone").and_then(|value| zone(&value));
    let finish = section.ask("finish").and_then(|value| value.choice(Finish::CHOICES));
    let finish = finish.unwrap_or(default.finish);
    let mcp_file = section.ask("mcp_file");
    section.finish("the agent");
    let providers = providers.unwrap_or_else(all);
    // These are sections of their own.
    let (asking, heartbeat) = (default.asking, default.heartbeat);
    let agent = AgentConfig {
        providers,
        summary_provider,
        steps_max,
        subagent_steps_max,
        turns_max,
        waiting_max,
        queue,
        timezone,
        finish,
        asking,
        heartbeat,
    };
    (agent, mcp_file)
}

/// `[asking]`: which calls must be approved, and how long people are waited for.
pub(super) fn asking(top: &mut Section<'_>) -> Asking {
    const ROLES: [(&str, Role); 4] = [
        ("guest", Role::Guest),
        ("user", Role::User),
        ("admin", Role::Admin),
        ("owner", Role::Owner),
    ];
    const FOREIGN: [(&str, OnForeign); 3] =
        [("ask", OnForeign::Ask), ("deny", OnForeign::Deny), ("allow", OnForeign::Allow)];
    let default = Asking::default();
    let Some(mut section) = top.section("asking") else { return default };
    let tools = section
        .ask("approve_tools")
        .and_then(|value| value.list()?.iter().map(|name| Some(name.text()?.to_owned())).collect());
    let roles = section
        .ask("approve_roles")
        .and_then(|value| value.list()?.iter().map(|role| role.choice(&ROLES)).collect());
    let mut minutes = |key, most, default| {
        let minutes = section.ask(key).and_then(|value| value.number(1..=most));
        minutes.map_or(default, |minutes| Duration::from_secs(u64::from(minutes) * 60))
    };
    let approval_time = minutes("approval_minutes", MINUTES_MOST, default.approval_time);
    let question_time = minutes("question_minutes", MINUTES_MOST, default.question_time);
    let foreign = section.ask("foreign").and_then(|value| value.choice(&FOREIGN));
    let foreign = foreign.unwrap_or(default.foreign);
    section.finish("asking");
    let approvals =
        Approvals { tools: tools.unwrap_or_default(), roles: roles.unwrap_or_default() };
    Asking { approvals, approval_time, question_time, foreign }
}

/// A zone of the tz database.
fn zone(value: &Located<'_>) -> Option<Tz> {
    let name = value.text()?;
    let zone = schedule::zone(name).ok();
    if zone.is_none() {
        let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
        let hint = nearest(name, names).map(|nearest| format!("; did you mean `{nearest}`?"));
        value.fault(format!("is no time zone{}", hint.unwrap_or_default()));
    }
    zone
}

/// The name of a provider.
pub(super) fn one(value: &Located<'_>, names: &[&str]) -> Option<String> {
    let name = value.text()?;
    if !names.contains(&name) {
        value.fault(format!("names a provider that is not there; {}", meant(name, names)));
        return None;
    }
    Some(name.to_owned())
}

fn meant(name: &str, names: &[&str]) -> String {
    match nearest(name, names.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if names.is_empty() => "there is none".to_owned(),
        None => format!("there are: {}", names.join(", ")),
    }
}

/// Some of `names`, in an order; `what` says whose they are.
pub(super) fn order(value: &Located<'_>, what: &str, names: &[&str]) -> Option<Vec<String>> {
    let entries = value.list()?;
    if entries.is_empty() {
        value.fault(format!("is empty; leave it out to use all {what}s"));
    }
    let mut order: Vec<String> = Vec::new();
    for entry in entries {
        let Some(name) = entry.text() else { continue };
        if !names.contains(&name) {
            entry.fault(format!("names a {what} that is not there; {}", meant(name, names)));
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
    use provider::ProviderKind::{Anthropic, OpenAi, Rehearsal};
    use provider::Tools;
    const TOOLS: [(&str, Tools); 2] = [("native", Tools::Native), ("text", Tools::Text)];
    const TYPES: [(&str, provider::ProviderKind); 3] =
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
    let context = match (section.ask("context"), &model, &base_url) {
        (Some(value), ..) => value.number(CONTEXT_LEAST..=CONTEXT_MOST),
        (None, Some(model), Some(url)) => Some(provider::default_context(model, url)),
        (None, ..) => None,
    };
    let tools = match section.ask("tools") {
        Some(value) => value.choice(&TOOLS),
        None => Some(Tools::default()),
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
        context: context?,
        tools: tools?,
        images,
    })
}

/// `[media]`
pub(super) fn media(top: &mut Section<'_>) -> intake::IntakeLimits {
    let default = intake::IntakeLimits::default();
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
    intake::IntakeLimits { file_max, inbox_max, ..default }
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

/// An address to send secrets to: encrypted, or on this machine. Without a slash at the end.
pub(super) fn url(value: &Located<'_>) -> Option<String> {
    checked_url(value.text()?).map_err(|wrong| value.fault(wrong)).ok()
}

/// As [`url`]; says what must be otherwise.
pub(super) fn checked_url(text: &str) -> Result<String, &'static str> {
    let url = url::Url::parse(text).map_err(|_| "must be an address that begins with https://")?;
    match url.scheme() {
        "https" | "http" if !url.username().is_empty() || url.password().is_some() => {
            Err("must not hold a name or password")
        }
        "https" | "http" if url.query().is_some() || url.fragment().is_some() => {
            Err("must end with its path: no ? or #")
        }
        "https" => Ok(url.as_str().trim_end_matches('/').to_owned()),
        "http" if is_loopback(&url) => Ok(url.as_str().trim_end_matches('/').to_owned()),
        "http" => Err("must begin with https://; http:// is for this machine only (127.0.0.1)"),
        _ => Err("must begin with https://"),
    }
}

/// All `[hooks.NAME]`.
pub(super) fn hooks(top: &mut Section<'_>) -> BTreeMap<String, Hook> {
    let sections = top.named("hooks");
    sections
        .into_iter()
        .filter_map(|(name, section)| Some((name.to_owned(), hook(section)?)))
        .collect()
}

fn hook(mut section: Section<'_>) -> Option<Hook> {
    let names: Vec<_> = event::NAMES.iter().map(|name| (*name, *name)).collect();
    let on = section.require("on", "a list of events, such as [\"turn_end\"]");
    let on = on.and_then(|value| {
        let entries = value.list()?;
        if entries.is_empty() {
            value.fault("is empty; name at least one event");
        }
        entries.iter().map(|entry| entry.choice(&names)).collect::<Option<Vec<_>>>()
    });
    let command = section.require("command", "the program with its arguments, as a list");
    let environment = command.as_ref().map(|value| value.source.env);
    let command = command.and_then(|value| {
        let words = value.list()?;
        if words.is_empty() {
            value.fault("is empty; the first is the program");
        }
        words.iter().map(|word| Some(word.text()?.to_owned())).collect::<Option<Vec<_>>>()
    });
    let seconds = section.ask("timeout_s");
    let seconds = seconds.map_or(Some(HOOK_SECONDS), |value| value.number(1..=HOOK_SECONDS_MOST));
    section.finish("a hook");
    let variables = environment.into_iter().flat_map(|environment| {
        let set = |name| Some((name, environment.raw(name)?.to_owned()));
        HOOK_VARIABLES.into_iter().filter_map(set)
    });
    Some(Hook {
        on: on?,
        command: command?,
        time_max: Duration::from_secs(seconds?.into()),
        environment: variables.collect(),
    })
}
