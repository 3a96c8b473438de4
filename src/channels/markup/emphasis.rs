//! Places the signs of bold, italic and strikethrough in one line, properly nested, and not around white space.
//! A dialect may refuse a group, whose text then has no formatting.

use super::document::{Piece, Style};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Bold,
    Italic,
    Strike,
}

/// From outermost to innermost.
const ATTRIBUTES: [Attribute; 3] = [Attribute::Bold, Attribute::Italic, Attribute::Strike];

impl Attribute {
    fn is_in(self, style: Style) -> bool {
        match self {
            Self::Bold => style.bold,
            Self::Italic => style.italic,
            Self::Strike => style.strike,
        }
    }
}

/// The opening and the closing sign.
pub(super) type EmphasisMark = (&'static str, &'static str);

/// A piece of a line with its signs, from outermost to innermost.
#[derive(Clone, Copy)]
pub(super) struct EmphasisSpan<'a> {
    pub text: &'a str,
    pub style: Style,
    pub url: Option<&'a str>,
    pub marks: [Option<EmphasisMark>; 3],
}

/// Adjacent spans that share an attribute.
pub(super) struct EmphasisGroup<'a> {
    pub attribute: Attribute,
    pub spans: &'a [EmphasisSpan<'a>],
    /// The adjacent characters.
    pub before: Option<char>,
    pub after: Option<char>,
    /// True if an outer sign is directly beside it.
    pub touches_outer: bool,
}

impl EmphasisGroup<'_> {
    pub(super) fn contains(&self, char: char) -> bool {
        self.spans.iter().any(|span| span.text.contains(char))
    }
}

/// Assigns signs to the pieces of a line. `choose` decides for each group.
pub(super) fn settle<'a>(
    line: &[Piece<'a>],
    choose: &dyn Fn(&EmphasisGroup<'_>) -> Option<EmphasisMark>,
) -> Vec<EmphasisSpan<'a>> {
    let mut spans = without_edges(line);
    for (level, attribute) in ATTRIBUTES.into_iter().enumerate() {
        let mut at = 0;
        while at < spans.len() {
            let outer = |span: &EmphasisSpan<'_>| {
                let mut marks = span.marks;
                marks[level..].fill(None);
                marks
            };
            let outer_marks = outer(&spans[at]);
            let length = spans[at..]
                .iter()
                .take_while(|span| attribute.is_in(span.style) && outer(span) == outer_marks)
                .count();
            let (mut start, mut end) = (at, at + length);
            at = end.max(at + 1);
            while start < end && is_blank(&spans[start]) {
                start += 1;
            }
            while start < end && is_blank(&spans[end - 1]) {
                end -= 1;
            }
            if start == end {
                continue;
            }
            let before = start.checked_sub(1).map(|before| &spans[before]);
            let after = spans.get(end);
            let touches =
                |span: Option<&EmphasisSpan<'_>>| span.map_or([None; 3], outer) != outer_marks;
            let mark = choose(&EmphasisGroup {
                attribute,
                spans: &spans[start..end],
                before: before.and_then(|span| span.text.chars().next_back()),
                after: after.and_then(|span| span.text.chars().next()),
                touches_outer: touches(before) || touches(after),
            });
            spans[start..end].iter_mut().for_each(|span| span.marks[level] = mark);
        }
    }
    spans
}

/// Returns the pieces with the white space at their ends as separate pieces, except in code.
fn without_edges<'a>(line: &[Piece<'a>]) -> Vec<EmphasisSpan<'a>> {
    let mut spans = Vec::with_capacity(line.len());
    for piece in line {
        let text = piece.text;
        let (lead, tail) = if piece.style.code {
            (0, text.len())
        } else {
            let tail = text.trim_end().len();
            ((text.len() - text.trim_start().len()).min(tail), tail)
        };
        let edge_style = Style { link: None, ..piece.style };
        let parts = [
            (&text[..lead], edge_style, None),
            (&text[lead..tail], piece.style, piece.url),
            (&text[tail..], edge_style, None),
        ];
        let parts = parts.into_iter().filter(|(text, ..)| !text.is_empty());
        spans.extend(parts.map(|(text, style, url)| EmphasisSpan {
            text,
            style,
            url,
            marks: [None; 3],
        }));
    }
    spans
}

fn is_blank(span: &EmphasisSpan<'_>) -> bool {
    !span.style.code && span.text.trim().is_empty()
}

/// Writes spans with their signs. `inner` writes one span without signs.
pub(super) fn write<'a>(
    out: &mut String,
    spans: &[EmphasisSpan<'a>],
    inner: &mut dyn FnMut(&mut String, &EmphasisSpan<'a>),
) {
    let mut open: [Option<EmphasisMark>; 3] = [None; 3];
    for span in spans {
        if let Some(level) = (0..3).find(|level| open[*level] != span.marks[*level]) {
            close(out, &open[level..]);
            span.marks[level..].iter().flatten().for_each(|(sign, _)| out.push_str(sign));
            open = span.marks;
        }
        inner(out, span);
    }
    close(out, &open);
}

fn close(out: &mut String, marks: &[Option<EmphasisMark>]) {
    marks.iter().rev().flatten().for_each(|(_, sign)| out.push_str(sign));
}
