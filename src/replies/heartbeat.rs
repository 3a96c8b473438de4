//! What the bot says of its heartbeat.

use std::fmt::Write as _;

use super::as_is;

pub const HEARTBEAT_USAGE: &str = "Say /heartbeat, or /heartbeat on, off or now.";
pub const HEARTBEAT_BEGUN: &str =
    "I'm looking after HEARTBEAT.md now, and will say what comes of it.";
pub const HEARTBEAT_TELLS_NOBODY: &str = "There is nobody to tell: the owner hasn't written to me in private yet, or that channel isn't here.";
pub const HEARTBEAT_HAS_NOTHING: &str =
    "HEARTBEAT.md asks for nothing. Write into it what I am to look after, a line each.";
pub const HEARTBEAT_UNREADABLE: &str =
    "I can't read HEARTBEAT.md: it must be a text in UTF-8 of at most a megabyte.";
pub const HEARTBEAT_WORKS: &str = "I'm at it already, and will say what comes of it.";
pub const HEARTBEAT_SPENT: &str =
    "What the heartbeat may use in a day is used up ([heartbeat] tokens_per_day).";
pub const HEARTBEAT_ON: &str = "I look after HEARTBEAT.md from time to time.";
pub const HEARTBEAT_OFF: &str =
    "I don't look after HEARTBEAT.md by myself any more. /heartbeat on changes that.";
pub const HEARTBEAT_OFF_BY_CONFIG: &str =
    "The config has the heartbeat off: [heartbeat] every_minutes = 0.";
pub const HEARTBEAT_SILENT: &str = "I looked after HEARTBEAT.md; there is nothing to tell.";

pub const QUIET_HOURS_BEGAN: &str = "(My quiet hours began before I was done.)";

/// How the heartbeat is.
pub struct HeartShown {
    /// None: the config has it off.
    pub every_minutes: Option<u64>,
    pub quiet: Option<String>,
    /// Why it was switched off; empty if somebody wished that.
    pub off: Option<String>,
    pub next: Option<String>,
    /// Whether the file asks for something; none if it cannot be read.
    pub asks: Option<bool>,
    pub has_somebody: bool,
    /// When the last one began, how it ended, and the beginning of its words.
    pub last: Option<(String, String, String)>,
    /// How many of the last day ended how.
    pub counts: Vec<(String, u64)>,
    /// Used today, and the most.
    pub tokens: (u64, u64),
}

pub fn heartbeat(shown: &HeartShown) -> String {
    let mut text = match (&shown.off, shown.every_minutes) {
        (_, None) => "The heartbeat is off, by my config.".to_owned(),
        (Some(why), _) if why.is_empty() => "The heartbeat is off.".to_owned(),
        (Some(why), _) => format!("The heartbeat is off: {}", as_is(why)),
        (None, Some(minutes)) => format!("The heartbeat is every {minutes} min"),
    };
    if let (None, Some(_)) = (&shown.off, shown.every_minutes) {
        if let Some(quiet) = &shown.quiet {
            let _ = write!(text, ", not {quiet}");
        }
        if let Some(next) = &shown.next {
            let _ = write!(text, ", next {next}");
        }
        text.push('.');
    }
    match shown.asks {
        Some(true) => {}
        Some(false) => text.push_str(" HEARTBEAT.md asks for nothing, so no model is called."),
        None => text.push_str(" HEARTBEAT.md cannot be read."),
    }
    if !shown.has_somebody {
        text.push_str(" There is nobody to tell yet.");
    }
    if let Some((at, state, words)) = &shown.last {
        let _ = write!(text, "\nThe last one: {at}, {state}");
        if !words.is_empty() {
            let _ = write!(text, ": {}", as_is(words));
        }
    }
    if !shown.counts.is_empty() {
        let counts = shown.counts.iter().map(|(state, count)| format!("{count} {state}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let (used, most) = shown.tokens;
        let _ = write!(text, "\nIn 24 hours: {counts}. Tokens today: {used} of {most}.");
    }
    text
}

/// One that was asked for.
pub fn heartbeat_failed(reason: &str) -> String {
    format!("I could not look after HEARTBEAT.md: {}", as_is(reason))
}

pub fn heartbeat_fails(times: u32, reason: &str) -> String {
    let times = if times > 1 { format!(" {times} times in a row") } else { String::new() };
    format!(
        "My heartbeat has failed{times}: {}\nI go on trying, with longer pauses; /heartbeat off ends that.",
        as_is(reason)
    )
}

pub fn heartbeat_off_itself(times: u32, reason: &str) -> String {
    format!(
        "My heartbeat has failed {times} times in a row, so I have switched it off: {}\n\
         /heartbeat on lets it go on.",
        as_is(reason)
    )
}
