//! Writes Discord's markdown, which is close to CommonMark, but parsed by other rules. Characters that it shows
//! differently, or would parse as formatting, are escaped.

use super::dialect::{Dialect, QuoteStyle, Size, has_scheme, with_fences, without_fences};
use super::document::{Marker, Piece, checkbox};
use crate::channels::markup::emphasis::{
    self, Attribute, EmphasisGroup, EmphasisMark, EmphasisSpan,
};

/// The deepest headings that Discord supports.
const HEADINGS: [&str; 3] = ["# ", "## ", "### "];

pub(super) struct Markdown;

impl Dialect for Markdown {
    /// Discord shows no link whose label has an address or lone brackets.
    fn links(&self, label: &str, url: &str) -> bool {
        has_scheme(url, &["http", "https"]) && !label.contains("://") && has_even_brackets(label)
    }

    fn quote(&self) -> QuoteStyle {
        QuoteStyle::Lines { prefix: "> ", holds_code: true }
    }

    fn marker(&self, marker: Marker) -> String {
        match marker {
            Marker::Bullet => "- ".to_owned(),
            Marker::Number(number) => format!("{number}. "),
            Marker::Task { done } => format!("- {} ", checkbox(done)),
        }
    }

    fn heading(&self, level: u8) -> Option<&'static str> {
        HEADINGS.get(usize::from(level).saturating_sub(1)).copied()
    }

    fn line(&self, out: &mut String, pieces: &[Piece<'_>]) {
        let spans = emphasis::settle(pieces, &mark);
        let text: String =
            spans.iter().filter(|span| !span.style.code).map(|span| span.text).collect();
        let escape = Escape {
            brackets: text.contains("]("),
            underscores: spans.iter().any(|span| span.marks[1].is_some()),
        };
        let mut is_start = true;
        emphasis::write(out, &spans, &mut |out, span| {
            escape.span(out, span, is_start);
            is_start = false;
        });
    }

    fn code(&self, language: &str, code: &str) -> String {
        format!("```{language}\n{}\n```", without_fences(code))
    }

    fn escaped(&self, text: &str) -> String {
        let mut out = String::new();
        for (at, line) in text.split('\n').enumerate() {
            out.push_str(if at > 0 { "\n" } else { "" });
            Escape { brackets: true, underscores: true }.text(&mut out, line, true);
        }
        out
    }

    /// The result has all addresses, and is no longer than the chunk.
    fn plain(&self, chunk: &str, _: Size) -> String {
        plain(chunk)
    }
}

/// Returns true if all brackets are paired and none are nested.
fn has_even_brackets(label: &str) -> bool {
    let mut is_open = false;
    for char in label.chars().filter(|char| "[]".contains(*char)) {
        if is_open == (char == '[') {
            return false;
        }
        is_open = !is_open;
    }
    !is_open
}

/// Chooses the signs of a group. Italic has two, and each of them fails beside certain neighbours.
fn mark(group: &EmphasisGroup<'_>) -> Option<EmphasisMark> {
    let has_raw = |sign: char| {
        let is_raw = |span: &&EmphasisSpan<'_>| span.style.code || span.text.contains("://");
        group.spans.iter().filter(is_raw).any(|span| span.text.contains(sign))
            || group.spans.iter().filter_map(|span| span.url).any(|url| url.contains(sign))
    };
    match group.attribute {
        Attribute::Bold => (!has_raw('*')).then_some(("**", "**")),
        Attribute::Strike => (!has_raw('~')).then_some(("~~", "~~")),
        Attribute::Italic => {
            let ends_word = group.after.is_none_or(|char| !char.is_alphanumeric() && char != '_');
            if ends_word && !has_raw('_') {
                return Some(("_", "_"));
            }
            (!group.touches_outer && !has_raw('*')).then_some(("*", "*"))
        }
    }
}

/// Additional escapes of a line.
struct Escape {
    /// Escape brackets, because something looks like a link.
    brackets: bool,
    /// Escape underscores also inside of words.
    underscores: bool,
}

impl Escape {
    fn span(&self, out: &mut String, span: &EmphasisSpan<'_>, is_start: bool) {
        let ticks = ticks(span.text).filter(|_| span.style.code && !out.ends_with('`'));
        match (span.url, ticks) {
            (Some(url), _) => {
                out.push('[');
                self.text(out, span.text, false);
                let url = url.replace('(', "%28").replace(')', "%29");
                out.push_str(&format!("]({url})"));
            }
            (None, Some(ticks)) => {
                let inside = span.text.starts_with('`') || span.text.ends_with('`');
                let pad = if inside { " " } else { "" };
                out.push_str(&format!("{ticks}{pad}{}{pad}{ticks}", span.text));
            }
            (None, None) => self.text(out, span.text, is_start),
        }
    }

    fn text(&self, out: &mut String, text: &str, is_start: bool) {
        let block_sign = if is_start { block_sign(text) } else { None };
        let mut before = None;
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            if let Some(length) = url_length(rest) {
                out.push_str(&rest[..length]);
                before = rest[..length].chars().next_back();
                rest = &rest[length..];
                continue;
            }
            let at = text.len() - rest.len();
            rest = &rest[char.len_utf8()..];
            if block_sign == Some(at) || self.has_meaning(char, before, rest.chars().next()) {
                out.push('\\');
            }
            out.push(char);
            before = Some(char);
        }
    }

    fn has_meaning(&self, char: char, before: Option<char>, after: Option<char>) -> bool {
        let is_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
        match char {
            '*' | '`' => true,
            '_' => self.underscores || !is_word(before) || !is_word(after),
            // Only a pair of them has a meaning, but the other one may be written by us.
            '~' | '|' => [before, after].iter().any(|beside| beside.is_none_or(|it| it == char)),
            '\\' => after.is_none_or(|char| !char.is_alphanumeric() && !char.is_whitespace()),
            '[' | ']' => self.brackets,
            _ => false,
        }
    }
}

/// Returns the offset of the sign that makes a line a heading, a list item or a quote.
fn block_sign(line: &str) -> Option<usize> {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t']);
    let bare = line.trim_start();
    let at = line.len() - bare.len();
    let hashes = bare.len() - bare.trim_start_matches('#').len();
    let digits = bare.len() - bare.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let after_digits = bare[digits..].strip_prefix('.').filter(|_| digits > 0);
    match bare.chars().next()? {
        '#' if hashes <= HEADINGS.len() && ends(&bare[hashes..]) => Some(at),
        '-' if ends(&bare[1..]) || bare[1..].starts_with('#') => Some(at),
        '>' => Some(at),
        _ if after_digits.is_some_and(ends) => Some(at + digits),
        _ => None,
    }
}

/// Returns the length of the URL at the start of `text`. Discord takes it verbatim, so nothing in it may
/// be escaped, and it ends before a character that must be.
fn url_length(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let ends = |char: char| char.is_whitespace() || "`*|\\<>[]~".contains(char);
    let length = rest.find(ends).unwrap_or(rest.len());
    (length > 0).then_some(text.len() - rest.len() + length)
}

/// Returns the backticks to put around `code`. None if no number of them fits.
fn ticks(code: &str) -> Option<&'static str> {
    let runs: Vec<usize> =
        code.split(|char| char != '`').map(str::len).filter(|length| *length > 0).collect();
    if runs.iter().any(|length| *length > 2) {
        return None;
    }
    ["`", "``"].into_iter().find(|ticks| !runs.contains(&ticks.len()))
}

/// Returns a rendered chunk without its markup.
fn plain(chunk: &str) -> String {
    let mut lines = Vec::new();
    let mut fence: Option<&str> = None;
    for line in chunk.split('\n') {
        if let Some(prefix) = fence {
            let code = line.strip_prefix(prefix).unwrap_or(line);
            if code == "```" {
                fence = None;
            } else {
                lines.push(with_fences(code));
            }
        } else if let Some(at) = line.find("```") {
            let quote = if line.starts_with("> ") { "> " } else { "" };
            fence = Some(quote);
            lines.extend((line[..at] != *quote).then(|| line[..at].to_owned()));
        } else {
            let bare = line.trim_start_matches(' ');
            let heading = HEADINGS.iter().find_map(|sign| bare.strip_prefix(sign));
            lines.push(plain_line(heading.unwrap_or(line)));
        }
    }
    lines.join("\n")
}

fn plain_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut before = None;
    while let Some(char) = rest.chars().next() {
        let after = rest[char.len_utf8()..].chars().next();
        let is_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
        let length = if let Some(length) = url_length(rest) {
            out.push_str(&rest[..length]);
            length
        } else if let Some((code, length)) = inline_code(rest) {
            out.push_str(code);
            length
        } else if let Some(WrittenLink { label, url, length }) = link(rest) {
            out.push_str(&format!("{} ({url})", plain_line(label)));
            length
        } else {
            let (shown, length) = match char {
                '\\' => match after.filter(char::is_ascii_punctuation) {
                    Some(sign) => (Some(sign), 2),
                    None => (Some(char), 1),
                },
                '*' => (None, 1),
                '~' if after == Some('~') => (None, 2),
                '_' if !is_word(before) || !is_word(after) => (None, 1),
                _ => (Some(char), char.len_utf8()),
            };
            out.extend(shown);
            length
        };
        before = rest[..length].chars().next_back();
        rest = &rest[length..];
    }
    out
}

/// Returns the inline code at the start of `text`, and its length with the backticks.
fn inline_code(text: &str) -> Option<(&str, usize)> {
    let ticks = text.len() - text.trim_start_matches('`').len();
    if ticks == 0 {
        return None;
    }
    let inside = &text[ticks..];
    let mut at = 0;
    loop {
        at += inside[at..].find('`')?;
        let run = inside[at..].len() - inside[at..].trim_start_matches('`').len();
        if run == ticks {
            let code = &inside[..at];
            let padded = code.strip_prefix(' ').and_then(|code| code.strip_suffix(' '));
            let padded = padded.filter(|code| code.starts_with('`') || code.ends_with('`'));
            return Some((padded.unwrap_or(code), at + 2 * ticks));
        }
        at += run;
    }
}

/// A link in Markdown. `length` is that of the whole link, in bytes.
struct WrittenLink<'a> {
    label: &'a str,
    url: &'a str,
    length: usize,
}

/// Returns the link at the start of `text`.
fn link(text: &str) -> Option<WrittenLink<'_>> {
    let inside = text.strip_prefix('[')?;
    let end = inside.find("](http")?;
    let url_end = end + 2 + inside[end + 2..].find(')')?;
    let (label, url) = (&inside[..end], &inside[end + 2..url_end]);
    Some(WrittenLink { label, url, length: url_end + 2 })
}
