//! `[heartbeat]`: when it looks after HEARTBEAT.md, what it may cost, and whom it tells.

use std::time::Duration;

use crate::tasks::heartbeat::{Config, Quiet};
use crate::types::message::Address;

use super::reading::Section;
use super::sections;

/// A day; what is wanted less often is a job.
const MINUTES_MOST: u32 = 24 * 60;

/// More than anybody wants to pay for.
const TOKENS_MOST: u32 = 1_000_000_000;

/// Where the owner last spoke in private.
const OWNER: &str = "owner";

/// Its provider must be among `names`.
pub(super) fn heartbeat(top: &mut Section<'_>, names: &[&str]) -> Config {
    let default = Config::default();
    let Some(mut section) = top.section("heartbeat") else { return default };
    let every = section.ask("every_minutes").and_then(|value| value.number(0..=MINUTES_MOST));
    let every = every.map_or(default.every, |minutes| {
        (minutes > 0).then(|| Duration::from_secs(u64::from(minutes) * 60))
    });
    let quiet = section.ask("quiet").map_or(default.quiet, |value| {
        let text = value.text_or_nothing()?;
        let quiet = text.parse::<Quiet>().ok();
        if quiet.is_none() && !text.is_empty() {
            value.fault("must be two times of the day, such as \"22:00-07:00\", or \"\" for none");
        }
        quiet
    });
    let provider = section.ask("provider").and_then(|value| sections::one(&value, names));
    let to = section.ask("to").and_then(|value| {
        let text = value.text().filter(|text| *text != OWNER)?;
        text.parse::<Address>().map_err(|_| value.fault("must be owner or CHANNEL:CHAT")).ok()
    });
    let steps = section.ask("steps_max").and_then(|value| value.number(1..=100));
    let tokens = section.ask("tokens_per_day").and_then(|value| value.number(1..=TOKENS_MOST));
    section.finish("the heartbeat");
    Config {
        every,
        quiet,
        provider,
        to,
        steps_max: steps.map_or(default.steps_max, |steps| steps as usize),
        tokens_max: tokens.map_or(default.tokens_max, u64::from),
    }
}

/// A line for a person who checks.
pub(super) fn describe(config: &Config) -> String {
    let Config { every, quiet, to, .. } = config;
    let Some(every) = every else { return "heartbeat\n  off\n".to_owned() };
    let minutes = every.as_secs() / 60;
    let quiet = quiet.map(|quiet| format!(", not {quiet}")).unwrap_or_default();
    let to = to.as_ref().map_or_else(|| OWNER.to_owned(), ToString::to_string);
    format!("heartbeat\n  every {minutes} min{quiet}, tells {to}\n")
}
