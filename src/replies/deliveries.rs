//! Sentences about messages that did not arrive, or may have arrived twice.

use std::fmt::Display;

use super::as_is;
use crate::short_text::{one_line, shortened};

/// As many characters of a question are quoted: enough to know it again, and one line on a phone.
const QUOTED_CHARS_MAX: usize = 60;

pub fn undeliverable(to: impl Display, reason: &str) -> String {
    format!("I couldn't deliver a message to {}: {}.", as_is(to), as_is(reason))
}

pub fn undeliverable_here(reason: &str) -> String {
    format!(
        "I couldn't deliver my last message here: {}. Ask again if you still need it.",
        as_is(reason)
    )
}

/// Explains, once something arrives again, what was given up there.
pub fn given_up_here(count: i64, reason: &str) -> String {
    let reason = as_is(reason);
    match count {
        1 => format!(
            "I couldn't deliver an earlier message here: {reason}. Ask again if you still need it."
        ),
        _ => format!(
            "I couldn't deliver {count} earlier messages here: {reason}. Ask again for anything you still need."
        ),
    }
}

// The reasons why a message was given up, as the rest of a sentence:

pub const UNDELIVERED_FOR_A_WEEK: &str = "it could not be delivered for a week";
pub const ARRIVAL_UNKNOWN: &str = "nobody can say whether it arrived";
pub const PLATFORM_TOO_SLOW: &str = "the platform did not answer in time";

/// Marks a chunk that the platform may already have.
pub fn perhaps_repeated(text: &str) -> String {
    format!("(perhaps sent twice)\n{text}")
}

/// Quotes the beginning of a question over its answer.
pub fn quoting(question: &str, answer: &str) -> String {
    let quoted = shortened(&one_line(question), QUOTED_CHARS_MAX);
    match quoted.is_empty() {
        true => answer.to_owned(),
        false => format!("> {}\n\n{answer}", as_is(&quoted)),
    }
}
