//! Sentences about actions, undo and plans.

use std::fmt::Display;

use super::{as_is, fenced, shown_path, visible::visible};
use crate::short_text::shortened;

pub const ACTIONS_USAGE: &str = "Use /actions, or /actions 20 to see more.";
pub const UNDO_USAGE: &str =
    "Use /undo for the last change, or /undo NUMBER. /actions shows the numbers.";
pub const NO_ACTIONS: &str = "Nothing has been done here yet.";
pub const NOTHING_TO_UNDO: &str = "There is nothing to undo here.";
pub const NOTHING_TO_UNDO_BUT_EARLIER: &str = "There is nothing to undo in this conversation. /actions shows earlier changes, and /undo NUMBER undoes one.";

/// An action on a line.
pub struct ActionLine<'a> {
    pub id: i64,
    pub at: String,
    pub tool: &'a str,
    pub input: &'a str,
    pub state: &'a str,
    pub ms: Option<i64>,
    pub person: &'a str,
    /// True if it can be undone, false if it was. None if it cannot be.
    pub undo: Option<bool>,
}

pub fn action(action: &ActionLine<'_>) -> String {
    const INPUT_CHARS_MAX: usize = 100;
    let ActionLine { id, at, tool, input, state, ms, person, undo } = action;
    let shown = shortened(&visible(&input.replace(char::is_control, " ")), INPUT_CHARS_MAX);
    let ms = ms.map(|ms| format!(" in {ms} ms")).unwrap_or_default();
    let undo = match undo {
        None => "",
        Some(true) => ", can be undone",
        Some(false) => ", undone",
    };
    format!("{id} · {at} · {tool} {shown} · {state}{ms} · {person}{undo}")
}

pub fn no_such_action(id: impl Display) -> String {
    format!("There is no action {id} here.")
}

pub fn no_change_known(path: impl Display) -> String {
    format!("None of my actions here changed {}.", shown_path(path))
}

/// The reply about a file of another person, whatever became of it.
pub fn not_yours_to_see(path: impl Display) -> String {
    format!("You don't have access to {}, so I can't explain it.", shown_path(path))
}

/// Actions as people are shown them in a chat: what a tool was given is not Markdown there.
pub fn actions(lines: impl Iterator<Item = String>) -> String {
    lines.map(as_is).collect::<Vec<_>>().join("\n")
}

pub fn undone(id: impl Display, tool: &str, path: impl Display) -> String {
    let path = shown_path(path);
    format!("Undone: action {id} ({tool}). {path} is as it was before.")
}

pub fn already_undone(id: impl Display) -> String {
    format!("Not undone: action {id} was already undone.")
}

pub fn cannot_undo(id: impl Display, tool: &str) -> String {
    format!(
        "Not undone: action {id} ({tool}) changed no file, or a file too large to keep a copy of."
    )
}

pub fn old_content_gone(path: impl Display) -> String {
    let path = shown_path(path);
    format!(
        "Not undone: the old version of {path} is gone. I keep old versions for 30 days, up to 200 MB in all."
    )
}

pub fn not_undone(reason: &str) -> String {
    format!("Not undone: {reason}.")
}

/// `differs` tells how, if that can be told.
pub fn changed_since(path: impl Display, differs: &str) -> String {
    let differs = if differs.is_empty() { String::new() } else { format!("\n{differs}") };
    let path = shown_path(path);
    format!("Not undone: {path} has changed since then.{differs}")
}

pub const UNDO_STATE_UNKNOWN: &str = "I was interrupted while undoing this, and the file matches neither its old nor its new version. Please check it.";

// Plans.

pub const NO_PLAN: &str = "There is no plan in this conversation.";

/// The message about a change of an instruction file.
pub fn instructions_changed(path: impl Display, lines: &str, action: impl Display) -> String {
    format!(
        "I changed {}:\n{}\nUse /undo {action} to undo it.",
        shown_path(path),
        fenced("", lines)
    )
}

/// Shows a person which of their own words were kept without a question.
pub fn own_words_saved(path: impl Display, words: &str, action: impl Display) -> String {
    let words = fenced("", &visible(words.trim()));
    format!("I added your words to {}:\n{words}\nUse /undo {action} to undo it.", shown_path(path))
}

/// Shows a person which of their own words will be sent to them without a question; `job` is the new job.
pub fn own_reminder_saved(job: &str, words: &str, number: impl Display) -> String {
    let words = fenced("", &visible(words.trim()));
    format!(
        "I made a reminder with your words. {job}\n{words}\nUse /jobs rm {number} to remove it."
    )
}

pub const TOO_LARGE_TO_SHOW: &str = "- It is too large to show here.";
pub const NOT_WATCHED_BEFORE: &str =
    "- It is new, or I wasn't watching it because there were too many files.";
pub const BINARY_CHANGED: &str = "- It was created or emptied, or its binary content changed.";

/// Files whose changes are shown line by line in one message.
const CHANGED_SHOWN_MAX: usize = 5;

/// A file that the bot follows, as a command has changed it.
pub struct InstructionChanged<'a> {
    pub path: &'a str,
    pub lines: &'a str,
    pub action: i64,
    pub can_be_undone: bool,
    /// That it leads elsewhere is what changed.
    pub is_link: bool,
}

/// Where a file that the bot follows leads now, none for one that is no link any more; empty for the whole
/// workspace.
pub fn link_target_changed(to: Option<&str>) -> String {
    match to {
        Some("") => {
            "It is now a link to the whole workspace. I use it for my instructions.".to_owned()
        }
        Some(to) => format!("It is now a link to {}. I use it for my instructions.", visible(to)),
        None => "It is no longer a link.".to_owned(),
    }
}

/// The message about changes of instructions while a tool ran. `too_many`: there are more files than can be watched.
pub fn instructions_changed_by_tool(
    tool: &str,
    changed: &[InstructionChanged<'_>],
    too_many: bool,
) -> String {
    let mut parts = Vec::new();
    if !changed.is_empty() {
        parts.push(format!("My instructions or skills changed while {} ran.", as_is(tool)));
    }
    for change in changed.iter().take(CHANGED_SHOWN_MAX) {
        let InstructionChanged { path, lines, action, .. } = change;
        let back = match (change.can_be_undone, change.is_link) {
            (true, false) => format!("Use /undo {action} to undo it."),
            (true, true) => {
                format!("Use /undo {action} to restore its content. I can't undo the link itself.")
            }
            (false, true) => {
                "I can't undo a change of a link. Please check it yourself.".to_owned()
            }
            (false, false) => "I can't undo this, because I have no old version.".to_owned(),
        };
        parts.push(format!("{}:\n{}\n{back}", shown_path(path), fenced("", lines)));
    }
    let more = changed.get(CHANGED_SHOWN_MAX..).unwrap_or_default();
    if let (Some(first), Some(last)) = (more.first(), more.last()) {
        let (count, first, last) = (more.len(), first.action, last.action);
        parts.push(format!("And {count} more files: /actions lists them as {first} to {last}, and /undo NUMBER undoes one."));
    }
    if too_many {
        parts.push("My skills folders now hold more files than I can watch. Please check that you know them all.".to_owned());
    }
    parts.join("\n\n")
}
