//! Writes Slack's mrkdwn. Its signs cannot be escaped, so ambiguous text gets no formatting. `&`, `<` and `>`
//! are escaped, so that no text can ping anybody.

use super::dialect::{Dialect, QuoteStyle, Size, has_scheme, with_fences, without_fences};
use super::document::{Marker, Piece};
use super::telegram::{escaped, unescaped};
use crate::channels::markup::emphasis::{self, Attribute, EmphasisGroup, EmphasisMark};

pub(super) struct Mrkdwn;

impl Dialect for Mrkdwn {
    fn links(&self, _: &str, url: &str) -> bool {
        has_scheme(url, &["http", "https", "mailto"])
    }

    fn quote(&self) -> QuoteStyle {
        QuoteStyle::Lines { prefix: "> ", holds_code: false }
    }

    fn marker(&self, marker: Marker) -> String {
        marker.shown()
    }

    fn heading(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn line(&self, out: &mut String, pieces: &[Piece<'_>]) {
        let spans = emphasis::settle(pieces, &mark);
        let mut line = String::new();
        emphasis::write(&mut line, &spans, &mut |out, span| match span.url {
            Some(url) => out.push_str(&format!("<{}|{}>", escaped(url), escaped(span.text))),
            None if span.style.code && !span.text.contains('`') => {
                out.push_str(&format!("`{}`", escaped(span.text)));
            }
            None => out.push_str(&escaped(span.text)),
        });
        out.push_str(&without_fences(&line));
    }

    fn code(&self, _: &str, code: &str) -> String {
        format!("```\n{}\n```", without_fences(&escaped(code)))
    }

    /// Slack cannot escape its signs: those of formatting, of emoji, and of a quote at the start of a
    /// line.
    fn misreads(&self, text: &str) -> bool {
        let is_sign = |char: char| "*_~`:".contains(char);
        let has_sign = |word: &str| {
            let starts = word.starts_with(is_sign);
            let trimmed = word.trim_end_matches(['.', ',', ';', '!', '?', ')']);
            (starts && word.len() > 1) || trimmed.ends_with(['*', '_', '~', '`'])
        };
        let has_emoji = |word: &&str| !word.contains("://") && word.matches(':').count() > 1;
        text.split_whitespace().any(|word| has_sign(word) || has_emoji(&word))
            || text.contains(['*', '`'])
            || text.lines().any(|line| line.starts_with('>'))
    }

    fn escaped(&self, text: &str) -> String {
        without_fences(&escaped(text))
    }

    /// Keeps the signs, which are readable as text, and cannot be distinguished from signs in the text itself.
    /// The result has all addresses, and is no longer than the chunk.
    fn plain(&self, chunk: &str, _: Size) -> String {
        let mut out = String::with_capacity(chunk.len());
        for (at, part) in chunk.split('<').enumerate() {
            let link = part.split_once('>').filter(|_| at > 0);
            let link = link.and_then(|(link, rest)| Some((link.split_once('|')?, rest)));
            match link {
                Some(((url, label), rest)) => {
                    out.push_str(&unescaped(&format!("{label} ({url}){rest}")));
                }
                None => out.push_str(&unescaped(part)),
            }
        }
        with_fences(&out)
    }
}

/// Chooses the signs of a group: only between words, and if nothing inside looks like them.
fn mark(group: &EmphasisGroup<'_>) -> Option<EmphasisMark> {
    let (sign, mark) = match group.attribute {
        Attribute::Bold => ('*', ("*", "*")),
        Attribute::Italic => ('_', ("_", "_")),
        Attribute::Strike => ('~', ("~", "~")),
    };
    let is_free =
        |beside: Option<char>| beside.is_none_or(|char| !char.is_alphanumeric() && char != sign);
    (is_free(group.before) && is_free(group.after) && !group.contains(sign)).then_some(mark)
}
