//! The bot's sentences about conversations by name.

use std::fmt::Write as _;

use super::{as_is, shown_name};

pub const RESUME_USAGE: &str =
    "Use /resume with a conversation's name or number: /resume #12. /sessions shows them.";
pub const RESUME_IN_GROUPS: &str =
    "In a group, only an admin can make me continue another conversation.";
pub const RESUME_BUSY: &str =
    "I'm still working on one of these conversations. Try again when I'm done, or use /stop first.";
pub const NO_SESSIONS: &str = "There are no earlier conversations here.";

/// A conversation as people are shown it.
pub struct SessionShown<'a> {
    pub number: i64,
    pub name: &'a str,
    pub channel: &'a str,
    /// When somebody last spoke in it.
    pub when: String,
    pub turns: usize,
    pub is_open_here: bool,
}

/// The conversations, the newest first.
pub fn sessions(shown: &[SessionShown<'_>], has_more: bool) -> String {
    if shown.is_empty() {
        return NO_SESSIONS.to_owned();
    }
    let mut text = lines(shown);
    if has_more {
        text.push_str("There are more: /sessions WORD shows those with a word in their names.\n");
    }
    text.push_str("/resume #NUMBER continues one here.");
    text
}

fn lines(shown: &[SessionShown<'_>]) -> String {
    let mut text = String::new();
    for session in shown {
        let SessionShown { number, name, channel, when, turns, .. } = session;
        let here = if session.is_open_here { ", open here" } else { "" };
        let exchanges = if *turns == 1 { "exchange" } else { "exchanges" };
        let _ = writeln!(
            text,
            "#{number} {} ({}, {when}, {turns} {exchanges}{here})",
            shown_name(name),
            as_is(channel)
        );
    }
    text
}

pub fn which_session(shown: &[SessionShown<'_>]) -> String {
    format!(
        "Several conversations match this name. Which one? /resume #NUMBER\n{}",
        lines(shown).trim_end()
    )
}

pub fn no_such_session(asked: &str) -> String {
    format!("There is no conversation “{}”. /sessions lists yours.", shown_name(asked))
}

pub fn already_here(name: &str) -> String {
    format!("“{}” is already open here.", shown_name(name))
}

pub fn resumed(name: &str, when: &str) -> String {
    format!(
        "We're back in “{}”, where you last wrote {when}. /new starts a new conversation.",
        shown_name(name)
    )
}

/// Tells the place where a conversation was.
pub fn session_moved(name: &str, channel: &str) -> String {
    format!(
        "“{}” continues at {}. Your next message here starts a new conversation.",
        shown_name(name),
        as_is(channel)
    )
}
