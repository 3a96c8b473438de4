//! The end of a question's text, as it is shown once the question is decided. Pure.

/// Maximum length of the end, in characters. The fence that it opens again comes on top.
const END_CHARS_MAX: usize = 500;

/// Indentation from which on a line opens or closes no fence (CommonMark, section 4.5).
const CODE_INDENT: usize = 4;

/// Returns about the last 500 characters of a Markdown text. A code fence that is open there is opened again, so that
/// what others wrote in it stays code.
pub(super) fn end(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(END_CHARS_MAX);
    let cut = text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at);
    if cut == 0 {
        return text.to_owned();
    }
    let mut fence: Option<&str> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let next = start + line.len();
        let opened = fence;
        fence = match opened {
            Some(open) if closes(line, open) => None,
            Some(open) => Some(open),
            None => opening(line),
        };
        if next > cut {
            return match (opened, fence) {
                (Some(open), Some(_)) => format!("{open}\n{}", &text[cut..]),
                (Some(_), None) => text[next..].to_owned(),
                (None, Some(open)) => format!("{open}\n{}", &text[next..]),
                (None, None) => from_line_or_word(text, cut, next).to_owned(),
            };
        }
        start = next;
    }
    String::new()
}

/// Returns a text from a place in a line of prose on: from there if a line begins there, else from the next line or, in the
/// last one, from the next word.
fn from_line_or_word(text: &str, cut: usize, next: usize) -> &str {
    let rest = &text[cut..];
    if text[..cut].ends_with('\n') {
        return rest;
    }
    if !text[next..].trim().is_empty() {
        return &text[next..];
    }
    rest.split_once(char::is_whitespace).map_or(rest, |(_, words)| words)
}

/// Returns the marks with which a line opens a fence.
fn opening(line: &str) -> Option<&str> {
    let (marks, rest) = marks(line)?;
    (marks.len() >= 3 && !(marks.starts_with('`') && rest.contains('`'))).then_some(marks)
}

/// Returns true if a line closes the fence that these marks opened.
fn closes(line: &str, open: &str) -> bool {
    marks(line).is_some_and(|(marks, rest)| marks.starts_with(open) && rest.trim().is_empty())
}

/// Splits a line behind the backticks or tildes that it begins with.
fn marks(line: &str) -> Option<(&str, &str)> {
    let unindented = line.trim_start_matches(' ');
    let sign = unindented.chars().next().filter(|sign| ['`', '~'].contains(sign))?;
    let length = unindented.len() - unindented.trim_start_matches(sign).len();
    (line.len() - unindented.len() < CODE_INDENT).then(|| unindented.split_at(length))
}
