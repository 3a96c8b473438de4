//! Old results of tools, shortened to their head and tail. What becomes of a result depends on
//! nothing but the call, so that it is the same each time, also after a restart. Pure.

use serde_json::Value;

use crate::conversation::tokens::tokens;
use crate::types::session::{Call, CallOutcome, StepMark, Turn};

/// Results up to this stay whole, in characters: to shorten them would save little.
pub const WHOLE_CHARS_MAX: usize = 1_600;

/// The beginning and the end of a longer one that are kept. With the line between them they are within the bound
/// above, so that a shortened result stays as it is.
const HEAD_CHARS: usize = 700;
const TAIL_CHARS: usize = 300;

/// A path or name that is longer is not repeated in that line.
const NAME_CHARS_MAX: usize = 200;

/// Where the newest `whole` steps with calls of the last turn begin; all results before it may be
/// shortened.
pub fn mark(turns: &[Turn], whole: usize) -> Option<StepMark> {
    let last = turns.last()?;
    let with_calls = last.steps.iter().enumerate().rev().filter(|(_, step)| !step.calls.is_empty());
    let step = with_calls.take(whole).last().map_or(last.steps.len(), |(at, _)| at);
    Some(StepMark { turn: last.id, step })
}

/// Shortens all results before `mark`; those that were shortened before stay as they are.
pub fn apply(turns: &mut [Turn], mark: StepMark) {
    for turn in turns.iter_mut().filter(|turn| turn.id <= mark.turn) {
        let steps = if turn.id < mark.turn { turn.steps.len() } else { mark.step };
        let calls = turn.steps.iter_mut().take(steps).flat_map(|step| &mut step.calls);
        calls.for_each(shorten);
    }
}

/// About how many tokens that would save.
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

/// The result of a call as it is shown once it is old; none if it stays whole.
pub fn shortened(call: &Call) -> Option<String> {
    let (CallOutcome::Done(text) | CallOutcome::Failed(text)) = &call.outcome else { return None };
    let chars = text.chars().count();
    if chars <= WHOLE_CHARS_MAX {
        return None;
    }
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..at(HEAD_CHARS)], &text[at(chars - TAIL_CHARS)..]);
    let left_out = chars - HEAD_CHARS - TAIL_CHARS;
    let how = again(call);
    Some(format!("{head}\n[{left_out} characters are left out here to save room. {how}]\n{tail}"))
}

/// Explains to the model how to see the rest.
fn again(call: &Call) -> String {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let short = |name: &&str| name.chars().count() <= NAME_CHARS_MAX;
    let path = arguments["path"].as_str().filter(short);
    let tool = Some(call.tool.as_str()).filter(short).unwrap_or("the tool");
    match path {
        Some(path) if tool == "read_file" => format!("Read {path} again if you need them."),
        _ => format!("Call {tool} again if you need them and a repetition does no harm."),
    }
}
