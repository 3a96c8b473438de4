//! Sentences about the heartbeat.

use std::fmt::Write as _;

use super::as_is;

pub const HEARTBEAT_USAGE: &str = "Use /heartbeat, or /heartbeat on, off or now.";
pub const HEARTBEAT_BEGUN: &str = "I've started a heartbeat run, and I'll send you the result.";
pub const HEARTBEAT_WITHOUT_RECIPIENT: &str = "I don't know where to send the result. Send me a private message first, or check `to` in [heartbeat].";
pub const HEARTBEAT_HAS_NOTHING: &str =
    "HEARTBEAT.md is empty, so nothing will run. Add one line for each thing I should check.";
pub const HEARTBEAT_UNREADABLE: &str =
    "I can't read HEARTBEAT.md. It must be UTF-8 text of at most 1 MB.";
pub const HEARTBEAT_WORKS: &str =
    "A heartbeat run is already in progress. I'll send you the result.";
pub const HEARTBEAT_OVER_BUDGET: &str = "The heartbeat has used its daily token budget ([heartbeat] tokens_per_day). It continues tomorrow.";
pub const HEARTBEAT_ON: &str = "The heartbeat is on. I'll check HEARTBEAT.md regularly.";
pub const HEARTBEAT_OFF: &str = "The heartbeat is off. Use /heartbeat on to turn it on again.";
pub const HEARTBEAT_OFF_BY_CONFIG: &str = "My config turns the heartbeat off. Set every_minutes in [heartbeat] above 0, or use /heartbeat now.";
pub const HEARTBEAT_SILENT: &str = "I checked HEARTBEAT.md, and there is nothing to report.";

pub const QUIET_HOURS_BEGAN: &str = "(My quiet hours began before I finished.)";

/// The state of the heartbeat.
pub struct HeartbeatShown {
    /// None: the config has it off.
    pub every_minutes: Option<u64>,
    pub quiet: Option<String>,
    /// Why it was switched off; empty if a person switched it off.
    pub off: Option<String>,
    pub next: Option<String>,
    /// True if the file asks for something. None if it cannot be read.
    pub asks: Option<bool>,
    pub has_somebody: bool,
    /// When the last one began, how it ended, and the beginning of its words.
    pub last: Option<(String, String, String)>,
    /// The outcomes of the last day, each with its number.
    pub counts: Vec<(String, u64)>,
    /// Used today, and the most.
    pub tokens: (u64, u64),
}

pub fn heartbeat(shown: &HeartbeatShown) -> String {
    let mut text = match (&shown.off, shown.every_minutes) {
        (_, None) => "Heartbeat: off in my config.".to_owned(),
        (Some(why), _) if why.is_empty() => "Heartbeat: off.".to_owned(),
        (Some(why), _) => format!("Heartbeat: off. {}", as_is(why)),
        (None, Some(minutes)) => format!("Heartbeat: every {minutes} min"),
    };
    if let (None, Some(_)) = (&shown.off, shown.every_minutes) {
        if let Some(quiet) = &shown.quiet {
            let _ = write!(text, ", quiet {quiet}");
        }
        if let Some(next) = &shown.next {
            let _ = write!(text, ", next {next}");
        }
        text.push('.');
    }
    match shown.asks {
        Some(true) => {}
        Some(false) => text.push_str(" HEARTBEAT.md is empty, so nothing will run."),
        None => text.push_str(" I can't read HEARTBEAT.md."),
    }
    if !shown.has_somebody {
        text.push_str(" I don't know yet where to send results.");
    }
    if let Some((at, state, words)) = &shown.last {
        let _ = write!(text, "\nLast run: {at}, {state}");
        if !words.is_empty() {
            let _ = write!(text, ": {}", as_is(words));
        }
    }
    if !shown.counts.is_empty() {
        let counts = shown.counts.iter().map(|(state, count)| format!("{count} {state}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let (used, most) = shown.tokens;
        let _ = write!(text, "\nLast 24 hours: {counts}. Tokens today: {used} of {most}.");
    }
    text
}

/// One that was asked for.
pub fn heartbeat_failed(reason: &str) -> String {
    format!("I couldn't check HEARTBEAT.md: {}", as_is(reason))
}

pub fn heartbeat_fails(times: u32, reason: &str) -> String {
    let times = if times > 1 { format!(" {times} times in a row") } else { String::new() };
    format!(
        "My heartbeat has failed{times}: {}\nI'll keep trying, with longer pauses. Use /heartbeat off to stop it.",
        as_is(reason)
    )
}

pub fn heartbeat_off_itself(times: u32, reason: &str) -> String {
    format!(
        "My heartbeat has failed {times} times in a row, so I turned it off: {}\n\
         Use /heartbeat on to turn it on again.",
        as_is(reason)
    )
}
