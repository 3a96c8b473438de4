//! Telling others what a person said in private: whether that person has asked for just that message. Pure.

use crate::short_text::one_line;
use crate::trust::acts::Telling;
use crate::trust::taint::is_own_file;
use crate::types::origin::TaskKind;
use crate::types::session::Session;
use crate::types::source::{Part, Parts, Source};

/// Returns true if the person of a private conversation has asked for a message to another chat: in what they said in
/// this turn, they named its address, and its text stands there word by word; or their job or HEARTBEAT.md names the
/// address, as nobody is there to ask when it runs.
pub fn is_agreed(session: &Session, telling: &Telling, is_attended: bool) -> bool {
    let steps = session.turns.last().into_iter().flat_map(|turn| &turn.steps);
    let mut parts = steps.filter_map(|step| step.input.as_ref()).flat_map(Parts::iter);
    let address = telling.to.to_string();
    parts.any(|part| {
        is_request(&part, is_attended)
            && has_words(part.text, &address)
            && (!is_attended
                || telling.text.as_ref().is_some_and(|text| has_words(part.text, text)))
    })
}

/// Returns true if a part says what the person wants.
fn is_request(part: &Part<'_>, is_attended: bool) -> bool {
    match part.source {
        Source::Person { .. } => true,
        Source::Task { kind: TaskKind::Job, read_others: false, .. } => !is_attended,
        Source::File { path } => !is_attended && is_own_file(path),
        _ => false,
    }
}

/// Returns true if words stand in a text, whole and in their order.
fn has_words(text: &str, words: &str) -> bool {
    let (text, words) = (one_line(text), one_line(words));
    let is_part = |sign: char| sign.is_alphanumeric() || matches!(sign, '-' | '_' | '#');
    let is_whole = |(at, found): (usize, &str)| {
        let before = text[..at].chars().next_back();
        // A colon ends an address, unless its thread follows.
        let mut after = text[at + found.len()..].chars().skip_while(|sign| *sign == ':');
        !before.is_some_and(|sign| is_part(sign) || sign == ':')
            && !after.next().is_some_and(is_part)
    };
    !words.is_empty() && text.match_indices(&words).any(is_whole)
}
