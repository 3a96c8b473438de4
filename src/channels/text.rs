//! Splits long texts into messages within a platform's limit. Pure. Knows code fences, but converts
//! nothing into a platform's markup.

use super::api::Unit;

/// Minimum `max` for [`split`]: enough for both lines of a cut fence and some code.
pub const CHUNK_MIN: usize = 16;

/// Returns the length of `text` in `unit`s.
pub fn length(text: &str, unit: Unit) -> usize {
    text.chars().map(|char| width(char, unit)).sum()
}

/// Splits `text` into chunks of at most `max` (at least [`CHUNK_MIN`]) `unit`s: between paragraphs if
/// possible, else lines, sentences, words, and only then characters. No chunk is blank. Only white space
/// at the cuts is lost. A fence that is cut is closed, and reopened in the next chunk.
pub fn split(text: &str, max: usize, unit: Unit) -> Vec<String> {
    let max = max.max(CHUNK_MIN);
    let ruler = Ruler { max, unit };
    let mut chunks = Vec::new();
    let mut open: Option<Fence<'_>> = None;
    let mut rest = skip_gap(text, false);
    while !rest.trim().is_empty() {
        let head = open.map(|fence| ruler.opening(&fence)).unwrap_or_default();
        let available = max - length(&head, unit);
        if length(rest.trim_end(), unit) <= available {
            chunks.push(head + rest.trim_end());
            break;
        }
        let cut = ruler.cut(rest, available, open);
        let piece = rest[..cut.end].trim_end();
        let only_reopens = cut.open.is_some_and(|fence| {
            piece == fence.line.trim_end() && ruler.opening(&fence).trim_end() == fence.line.trim()
        });
        if !piece.trim().is_empty() && !only_reopens {
            let tail = cut.open.map(|fence| format!("\n{}", fence.marker)).unwrap_or_default();
            chunks.push(head + piece + &tail);
        }
        rest = skip_gap(&rest[cut.end..], cut.open.is_some());
        open = cut.open;
        if let Some(after) = open.and_then(|fence| skip_closing(rest, fence)) {
            rest = skip_gap(after, false);
            open = None;
        }
    }
    chunks
}

/// An open code fence: "```rust".
#[derive(Clone, Copy)]
struct Fence<'a> {
    marker: &'a str,
    line: &'a str,
    /// Offset of its line in the scanned text, if it begins there.
    at: usize,
}

struct Cut<'a> {
    /// End of the piece.
    end: usize,
    /// The fence that is open at the end.
    open: Option<Fence<'a>>,
}

/// Measures text against a limit.
struct Ruler {
    max: usize,
    unit: Unit,
}

impl Ruler {
    /// The line that reopens `fence`. Without its language if that would take half a chunk.
    fn opening(&self, fence: &Fence<'_>) -> String {
        let line = fence.line.trim();
        if length(line, self.unit) < self.max / 2 {
            format!("{line}\n")
        } else {
            format!("{}\n", fence.marker)
        }
    }

    /// Chooses the end of a piece of `rest` that fits into `available` units, with a closing fence.
    fn cut<'a>(&self, rest: &'a str, available: usize, open: Option<Fence<'a>>) -> Cut<'a> {
        let mut reserve = 0;
        loop {
            let end = self.best_break(rest, available - reserve, open.is_some());
            let inside = self.scan(&rest[..end], open);
            let Some(fence) = inside else { return Cut { end, open: None } };
            let opened_last = open.is_none()
                && rest[fence.at..end].trim() == fence.line.trim()
                && !rest[..fence.at].trim().is_empty();
            if opened_last {
                return Cut { end: fence.at, open: None };
            }
            let closing = 1 + length(fence.marker, self.unit);
            if length(rest[..end].trim_end(), self.unit) + closing <= available {
                return Cut { end, open: inside };
            }
            // Grows each time, and is bounded, because `scan` ignores long markers.
            reserve = closing.max(reserve + 1);
        }
    }

    /// Returns the fence that is open at the end of `text`. Ignores markers that are too long to be
    /// repeated.
    fn scan<'a>(&self, text: &'a str, open: Option<Fence<'a>>) -> Option<Fence<'a>> {
        let (mut open, mut at) = (open, 0);
        for line in text.split_inclusive('\n') {
            match open {
                Some(fence) if closes(line, fence) => open = None,
                Some(_) => {}
                None => {
                    open = opener(line)
                        .filter(|marker| length(marker, self.unit) <= self.max / 4)
                        .map(|marker| Fence { marker, line, at });
                }
            }
            at += line.len();
        }
        open
    }

    /// Returns the best place to end a piece of at most `max` units: more than 0 and at most `rest.len()`.
    fn best_break(&self, rest: &str, max: usize, code: bool) -> usize {
        let limit = fitting(rest, max, self.unit);
        if limit == rest.len() {
            return limit;
        }
        // A better kind of break does not justify a chunk that is nearly empty.
        let floor = limit / 3;
        let mut best = [0; 4];
        let mut before = None;
        for (at, char) in rest.char_indices().take_while(|(at, _)| *at <= limit) {
            let blank_so_far = before.is_none();
            if let Some(kind) = break_kind(&rest[at..], before, code)
                && !blank_so_far
            {
                best[..=kind].iter_mut().for_each(|place| *place = at);
            }
            if before.is_some() || !char.is_whitespace() {
                before = Some(char);
            }
        }
        let [word, better @ ..] = best;
        better
            .into_iter()
            .rev()
            .find(|at| *at > floor)
            .or((word > 0).then_some(word))
            .unwrap_or_else(|| between_clusters(rest, limit))
    }
}

/// Returns how many bytes of `text` fit into `max` `unit`s: whole characters, and at least one.
pub(super) fn fitting(text: &str, max: usize, unit: Unit) -> usize {
    let mut used = 0;
    text.char_indices()
        .find(|(at, char)| {
            used += width(*char, unit);
            used > max && *at > 0
        })
        .map_or(text.len(), |(at, _)| at)
}

fn width(char: char, unit: Unit) -> usize {
    match unit {
        Unit::Utf16 => char.len_utf16(),
        Unit::Chars => 1,
    }
}

/// Rates a break before `after`: 0 after a word, 1 after a sentence, 2 after a line, 3 after a paragraph.
pub(super) fn break_kind(after: &str, before: Option<char>, code: bool) -> Option<usize> {
    let next = after.chars().next()?;
    let wide_stop = before.is_some_and(|char| "。！？".contains(char));
    let stop = wide_stop || before.is_some_and(|char| ".!?…".contains(char));
    match next {
        '\n' if after[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => Some(3),
        '\n' => Some(2),
        _ if code => next.is_whitespace().then_some(0),
        _ if wide_stop || (stop && next.is_whitespace()) => Some(1),
        _ => next.is_whitespace().then_some(0),
    }
}

/// Returns the last place up to `limit` that does not separate a character from its modifiers, if one is
/// near.
pub(super) fn between_clusters(text: &str, limit: usize) -> usize {
    /// Longer clusters are cut. A family emoji has 7 to 11 characters.
    const CLUSTER_MAX: usize = 12;
    let clean = |at: usize| {
        let next = text[at..].chars().next();
        let before = text[..at].chars().next_back();
        !next.is_some_and(is_joiner) && before != Some('\u{200d}')
    };
    text[..limit]
        .char_indices()
        .rev()
        .map(|(at, _)| at)
        .take(CLUSTER_MAX)
        .find(|at| *at > 0 && clean(*at))
        .filter(|_| !clean(limit))
        .unwrap_or(limit)
}

/// Returns true for a modifier of the character before it: accents, variation selectors, skin tones.
fn is_joiner(char: char) -> bool {
    matches!(char, '\u{200d}' | '\u{300}'..='\u{36f}' | '\u{20d0}'..='\u{20f0}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// Skips the white space at a cut: one line end in code, else all but an indentation.
fn skip_gap(rest: &str, code: bool) -> &str {
    if code {
        return rest.strip_prefix("\r\n").or(rest.strip_prefix('\n')).unwrap_or(rest);
    }
    let body = rest.trim_start();
    match rest[..rest.len() - body.len()].rfind('\n') {
        Some(line_end) => &rest[line_end + 1..],
        None => body,
    }
}

/// Returns the marker if `line` opens a fence (CommonMark §4.5).
fn opener(line: &str) -> Option<&str> {
    let (indent, line) = unindented(line);
    let fence_char = line.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let run = line.len() - line.trim_start_matches(fence_char).len();
    let info_allowed = fence_char == '~' || !line[run..].contains('`');
    (indent < 4 && run >= 3 && info_allowed).then(|| &line[..run])
}

fn closes(line: &str, fence: Fence<'_>) -> bool {
    let (indent, line) = unindented(line);
    let fence_char = fence.marker.chars().next().unwrap_or('`');
    let after = line.trim_start_matches(fence_char);
    indent < 4 && line.len() - after.len() >= fence.marker.len() && after.trim().is_empty()
}

fn unindented(line: &str) -> (usize, &str) {
    let body = line.trim_start_matches(' ');
    (line.len() - body.len(), body)
}

/// Returns the text after the line that closes `fence`, if only white space comes before that line.
fn skip_closing<'a>(rest: &'a str, fence: Fence<'_>) -> Option<&'a str> {
    let rest =
        &rest[rest[..rest.len() - rest.trim_start().len()].rfind('\n').map_or(0, |at| at + 1)..];
    let line = rest.split_inclusive('\n').next()?;
    closes(line, fence).then(|| &rest[line.len()..])
}
