//! A digest of turns, which stands for their summary where nobody can wait for a model to write one. Pure.

use crate::conversation::tokens;
use crate::turn::compaction::{record, within};
use crate::types::session::{Step, Turn};
use crate::types::source::SourcedText;

/// The parts of a digest of which the former summary may have one, and each turn.
const FORMER_PARTS: u64 = 2;
const TURN_PARTS: u64 = 4;

struct SizedText {
    text: String,
    tokens: u64,
}

/// Returns the former summary and a record of the turns, within about so many tokens; none if there is nothing in them.
/// The newest turns are whole. Of older ones there are the words that they began with, the oldest of which go first.
pub(super) fn digest(former: Option<&str>, turns: &[Turn], tokens_max: u64) -> Option<String> {
    let former = former.map(str::trim).unwrap_or_default().to_owned();
    let former = within(former, tokens_max / FORMER_PARTS);
    let mut left = tokens_max.saturating_sub(tokens::tokens(&former));
    let mut kept = Vec::new();
    for turn in turns.iter().rev() {
        let words = sized(&words_of(turn), tokens_max / TURN_PARTS);
        let Some(rest) = left.checked_sub(words.tokens) else { break };
        left = rest;
        kept.push((words, sized(turn, tokens_max / TURN_PARTS)));
    }
    let mut texts = Vec::new();
    for (words, whole) in kept {
        let rest = left.checked_sub(whole.tokens.saturating_sub(words.tokens));
        texts.push(if rest.is_some() { whole.text } else { words.text });
        // Before a turn that is cut, each is.
        left = rest.unwrap_or_default();
    }
    texts.push(format!("{former}\n"));
    texts.reverse();
    let text = texts.concat().trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn sized(turn: &Turn, tokens_max: u64) -> SizedText {
    let text = within(record(turn), tokens_max);
    SizedText { tokens: tokens::tokens(&text), text }
}

/// A turn with nothing in it but what was said to the bot.
fn words_of(turn: &Turn) -> Turn {
    let said = turn.steps.iter().filter_map(|step| step.input.as_ref());
    let steps = said.map(|input| {
        let mut words = SourcedText::default();
        let parts = input.iter().filter(|part| !part.source.is_added());
        parts.for_each(|part| words.push(part.source.clone(), part.text));
        Step { input: Some(words), ..Step::default() }
    });
    Turn { id: turn.id, by: turn.by.clone(), steps: steps.collect(), ending: turn.ending }
}
