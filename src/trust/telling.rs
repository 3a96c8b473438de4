//! Decides if a person has requested a message that sends their private content to others. Pure.

use crate::short_text::one_line;
use crate::trust::acts::CrossChatMessage;
use crate::trust::taint::is_own_file;
use crate::types::origin::TaskKind;
use crate::types::session::Session;
use crate::types::source::{Source, SourcedPart, SourcedText};

/// Returns true if the person of a private conversation has requested a message to another chat. In an attended turn,
/// their messages must contain its address and its literal text. In an unattended one, their job or HEARTBEAT.md must
/// name the address, because nobody can be asked then.
pub fn is_agreed(session: &Session, telling: &CrossChatMessage, is_attended: bool) -> bool {
    let steps = session.turns.last().into_iter().flat_map(|turn| &turn.steps);
    let mut parts = steps.filter_map(|step| step.input.as_ref()).flat_map(SourcedText::iter);
    let address = telling.to.to_string();
    parts.any(|part| {
        is_request(&part, is_attended)
            && has_words(part.text, &address)
            && (!is_attended
                || telling.text.as_ref().is_some_and(|text| has_words(part.text, text)))
    })
}

/// Returns true if a part is a request of the person.
fn is_request(part: &SourcedPart<'_>, is_attended: bool) -> bool {
    match part.source {
        Source::Person { .. } => true,
        Source::Task { kind: TaskKind::Job, read_others: false, .. } => !is_attended,
        Source::File { path } => !is_attended && is_own_file(path),
        _ => false,
    }
}

/// Returns true if a text contains these words, whole and in their order.
fn has_words(text: &str, words: &str) -> bool {
    let (text, words) = (one_line(text), one_line(words));
    let is_word_char = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '#');
    let is_whole = |(at, found): (usize, &str)| {
        let before = text[..at].chars().next_back();
        // A colon ends an address, unless its thread follows.
        let mut after = text[at + found.len()..].chars().skip_while(|c| *c == ':');
        !before.is_some_and(|c| is_word_char(c) || c == ':')
            && !after.next().is_some_and(is_word_char)
    };
    !words.is_empty() && text.match_indices(&words).any(is_whole)
}
