//! The part of a command's output that a model sees: its beginning and its end, as text.

use crate::sandbox::{KeptOutput, readable};
use crate::tools::{RESULT_CHARS_MAX, ToolOutput};
use crate::types::source::Source;

/// Characters of a result that are reserved for the end, where programs report errors.
const TAIL_CHARS: usize = 3_000;

/// Characters that are reserved for the lines around the output.
const FRAME_CHARS: usize = 600;

const HEAD_CHARS: usize = RESULT_CHARS_MAX - TAIL_CHARS - FRAME_CHARS;

/// Bytes that are examined to detect text.
const SAMPLE_BYTES: usize = 8 * 1024;

/// Maximum number of bytes of a character.
const CHAR_BYTES_MAX: usize = 4;

/// Returns true if a model sees all of it.
pub(super) fn fits(kept: &KeptOutput) -> bool {
    let is_small = kept.total() <= ((HEAD_CHARS + TAIL_CHARS) * CHAR_BYTES_MAX) as u64;
    is_small
        && is_text(kept)
        && readable(kept.since(0).0).chars().count() <= HEAD_CHARS + TAIL_CHARS
}

pub(super) fn is_text(kept: &KeptOutput) -> bool {
    let (head, _) = kept.since(0);
    let sample = &head[..head.len().min(SAMPLE_BYTES)];
    let broken = String::from_utf8_lossy(sample).chars().filter(|sign| *sign == '\u{fffd}').count();
    !sample.contains(&0) && broken * 10 <= sample.len()
}

/// Returns the whole output. `whole` is the path of its file, if it is long.
pub(super) fn all(kept: &KeptOutput, whole: Option<&str>) -> String {
    since(kept, 0, whole)
}

/// Returns the output from byte `from` on.
pub(super) fn since(kept: &KeptOutput, from: u64, whole: Option<&str>) -> String {
    let location = match whole {
        Some(path) if kept.missing() == 0 => format!("the whole is in {path}"),
        Some(path) => format!("its first megabyte is in {path}"),
        None => "it was not kept".to_owned(),
    };
    if !is_text(kept) {
        return format!("[{} bytes that are not text; {location}]", kept.total());
    }
    let (head, tail) = kept.since(from);
    if head.is_empty() && tail.is_empty() {
        return "(no output)".to_owned();
    }
    let gap = kept.missing() > 0;
    // Cleaning a megabyte to show a page would be wasteful.
    let bytes_for = |length: usize| length * CHAR_BYTES_MAX;
    let beginning = readable(&head[..head.len().min(bytes_for(HEAD_CHARS + TAIL_CHARS) + 1)]);
    let is_short = !gap && head.len() <= bytes_for(HEAD_CHARS + TAIL_CHARS) && tail.is_empty();
    if is_short && beginning.chars().count() <= HEAD_CHARS + TAIL_CHARS {
        return beginning.trim_end().to_owned();
    }
    let last = if tail.is_empty() { head } else { tail };
    let ending = readable(&last[last.len().saturating_sub(bytes_for(TAIL_CHARS))..]);
    let beginning: String = beginning.chars().take(HEAD_CHARS).collect();
    let skipped = ending.chars().count().saturating_sub(TAIL_CHARS);
    let ending: String = ending.chars().skip(skipped).collect();
    let bytes = kept.total() - from;
    format!("{beginning}\n[… cut: {bytes} bytes in all; {location} …]\n{}", ending.trim_end())
}

/// Returns a command's output for the model.
pub(super) fn output(read_others: bool, text: String) -> ToolOutput {
    ToolOutput::of(Source::Command { read_others }, text)
}
