//! Shortens old results of tools to their head and tail. A shortened result depends on the call only, so
//! that it is always the same, also after a restart. Pure.

use serde_json::Value;

use crate::conversation::tokens::tokens;
use crate::types::session::{Call, CallOutcome, StepMark, Turn};

/// Maximum length of a result that stays whole, in characters. Shortening it would save little.
pub const WHOLE_CHARS_MAX: usize = 1_600;

/// Lengths of the kept beginning and end of a longer result. With the line between them they are within the limit above,
/// so that a shortened result is not shortened again.
const HEAD_CHARS: usize = 700;
const TAIL_CHARS: usize = 300;

/// Maximum length of a path or name that is repeated in that line.
const NAME_CHARS_MAX: usize = 200;

/// Returns the first of the newest `whole` steps with calls in the last turn. All results before it may be
/// shortened.
pub fn mark(turns: &[Turn], whole: usize) -> Option<StepMark> {
    let last = turns.last()?;
    let with_calls = last.steps.iter().enumerate().rev().filter(|(_, step)| !step.calls.is_empty());
    let step = with_calls.take(whole).last().map_or(last.steps.len(), |(at, _)| at);
    Some(StepMark { turn: last.id, step })
}

/// Shortens all results before `mark`. Shortened ones do not change.
pub fn apply(turns: &mut [Turn], mark: StepMark) {
    for turn in turns.iter_mut().filter(|turn| turn.id <= mark.turn) {
        let steps = if turn.id < mark.turn { turn.steps.len() } else { mark.step };
        let calls = turn.steps.iter_mut().take(steps).flat_map(|step| &mut step.calls);
        calls.for_each(shorten);
    }
}

/// Estimates the tokens that shortening would save.
pub fn saving(turns: &[Turn], mark: StepMark) -> u64 {
    let before = |turn: &&Turn| turn.id <= mark.turn;
    let calls = turns.iter().filter(before).flat_map(|turn| {
        let steps = if turn.id < mark.turn { turn.steps.len() } else { mark.step };
        turn.steps.iter().take(steps).flat_map(|step| &step.calls)
    });
    let saved = calls.map(|call| match shortened(call) {
        Some(short) => tokens(call.outcome.for_model()).saturating_sub(tokens(&short)),
        None => 0,
    });
    saved.sum()
}

fn shorten(call: &mut Call) {
    if let Some(short) = shortened(call) {
        match &mut call.outcome {
            CallOutcome::Done(text) | CallOutcome::Failed(text) => *text = short,
            _ => {}
        }
    }
}

/// Returns the shortened result of a call. None if it stays whole.
pub fn shortened(call: &Call) -> Option<String> {
    let (CallOutcome::Done(text) | CallOutcome::Failed(text)) = &call.outcome else { return None };
    let chars = text.chars().count();
    if chars <= WHOLE_CHARS_MAX {
        return None;
    }
    let byte_offset =
        |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(offset, _)| offset);
    let (head, tail) = (&text[..byte_offset(HEAD_CHARS)], &text[byte_offset(chars - TAIL_CHARS)..]);
    let left_out = chars - HEAD_CHARS - TAIL_CHARS;
    let hint = repetition_hint(call);
    Some(format!("{head}\n[{left_out} characters are left out here to save room. {hint}]\n{tail}"))
}

/// Explains to the model how to see the rest.
fn repetition_hint(call: &Call) -> String {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let is_short = |name: &&str| name.chars().count() <= NAME_CHARS_MAX;
    let path = arguments["path"].as_str().filter(is_short);
    let tool = Some(call.tool.as_str()).filter(is_short).unwrap_or("the tool");
    match path {
        Some(path) if tool == "read_file" => format!("Read {path} again if you need them."),
        _ => format!("Call {tool} again if you need them and a repetition does no harm."),
    }
}
