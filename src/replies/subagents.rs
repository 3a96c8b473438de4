//! Sentences about subagents.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use super::{as_is, counted};
use crate::short_text::shortened;

pub const NO_SUBAGENTS: &str = "There are no subagents here.";
pub const NO_RESULT: &str = "(no result)";
pub const SUBAGENT_GAVE_UP: &str = "Restarts interrupted it three times, so I gave up on it.";
pub const SUBAGENT_BROKE: &str = "Something went wrong on my side. The details are in my log.";

pub const APPROVED_UNREADABLE: &str = "I did not make a call that was approved here: my record of it is damaged. Please ask me for it again.";

pub const SUBAGENT_WITHOUT_ACCESS: &str =
    "It was stopped, because its person has no access any more.";

/// Maximum length of a known task in a message, in characters.
const TASK_CHARS_MAX: usize = 100;

pub fn task_steps_used_up(steps: usize) -> String {
    format!("(It was stopped after {steps} steps.)")
}

pub fn task_tokens_used_up(tokens: u64) -> String {
    format!("(It was stopped after {tokens} tokens.)")
}

pub fn task_too_slow(time: Duration) -> String {
    format!(
        "It was stopped after {} without a result.",
        counted(time.as_secs().div_ceil(60), "minute")
    )
}

fn task_shown(task: &str) -> String {
    as_is(shortened(task, TASK_CHARS_MAX))
}

/// The result of a task, for the person who asked for it.
pub fn subagent_ended(id: impl Display, task: &str, went_well: bool, result: &str) -> String {
    let ended = if went_well { "is done" } else { "failed" };
    format!("Subagent {id} {ended}: {}\n\n{result}", task_shown(task))
}

/// A subagent in a list.
pub struct SubagentLine<'a> {
    pub id: i64,
    pub state: &'a str,
    pub begun: String,
    pub task: &'a str,
}

/// The list of subagents, one on each line.
pub fn subagents<'a>(subagents: impl Iterator<Item = SubagentLine<'a>>) -> String {
    let mut text = String::new();
    for SubagentLine { id, state, begun, task } in subagents {
        let _ = writeln!(text, "{id} {state}, since {begun}: {}", task_shown(task));
    }
    if text.is_empty() { NO_SUBAGENTS.to_owned() } else { text.trim_end().to_owned() }
}
