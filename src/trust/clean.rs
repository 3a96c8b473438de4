//! Removes untrusted content from a conversation: it keeps everything before the first untrusted part, and people's own
//! words after it. Pure.

use crate::people::Role;
use crate::trust::taint;
use crate::types::session::Session;
use crate::types::source::{Parts, Source};
use crate::workspace::Audience;

/// Maximum length of what is kept, in characters: the newest. As a summary has it in a usual context window.
const KEPT_CHARS_MAX: usize = 8_000;

/// Maximum length of one message in it, in characters.
const MESSAGE_CHARS_MAX: usize = 1_500;

/// The rest of a private conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptConversation {
    /// A record of it, as the summary of the next conversation. Empty if nothing is left.
    pub record: String,
    /// Number of messages of the bot that were left out.
    pub left_out: usize,
}

/// Returns what a private conversation keeps for a person with this role. None if its model sees no untrusted
/// content.
pub fn keep(session: &Session, role: Role, audience: Audience) -> Option<KeptConversation> {
    taint::of_one(session, role)?;
    let mut lines: Vec<String> = session.summary.iter().cloned().collect();
    let (mut is_tainted, mut left_out) = (false, 0);
    for step in session.turns.iter().flat_map(|turn| &turn.steps) {
        let input: Vec<_> = step.input.iter().flat_map(Parts::iter).collect();
        let is_untrusted = |source: &Source| taint::is_untrusted(source, audience);
        is_tainted |= input.iter().any(|part| is_untrusted(part.source));
        let own = input.iter().filter(|part| match part.source {
            Source::Person { .. } => true,
            // The bot wrote the text of a button.
            Source::Button { .. } => !is_tainted,
            _ => false,
        });
        let own: String = own.map(|part| part.text).collect();
        if !own.trim().is_empty() {
            lines.push(format!("The person: {}", short(&own)));
        }
        // The model saw these before it wrote the step's text.
        match (step.text.trim(), is_tainted) {
            ("", _) => {}
            (text, false) => lines.push(format!("You: {}", short(text))),
            (_, true) => left_out += 1,
        }
        let by_calls = step.calls.iter().flat_map(|call| &call.sources).any(is_untrusted);
        is_tainted |= by_calls;
    }
    Some(KeptConversation { record: newest(&lines), left_out })
}

fn short(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{} […]", &text[..at]),
    }
}

/// The last lines that fit.
fn newest(lines: &[String]) -> String {
    let mut left = KEPT_CHARS_MAX;
    let fits = |line: &&String| {
        let fits = line.chars().count() < left;
        left = left.saturating_sub(line.chars().count() + 1);
        fits
    };
    let mut kept: Vec<_> = lines.iter().rev().take_while(fits).cloned().collect();
    kept.reverse();
    kept.join("\n")
}
