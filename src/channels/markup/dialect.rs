//! The differences between the platforms' markups.

use super::document::{Marker, Piece};
use crate::channels::api::Unit;
use crate::channels::text;

/// Maximum size of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) max: usize,
    pub(super) unit: Unit,
}

impl Size {
    /// Returns the length in bytes, with the address, from which a link is written out as text. A longer link
    /// leaves no space for the markup around it, and would have to be cut.
    pub(super) fn link_max(self) -> usize {
        self.max / 4 * 3
    }
}

/// Used share of a limit.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) used: usize,
    pub(super) max: usize,
}

impl Load {
    pub(super) fn fits(self) -> bool {
        self.used <= self.max
    }

    /// Returns true if the search for a longer chunk may stop.
    pub(super) fn is_nearly_full(self) -> bool {
        self.used + self.max / 16 >= self.max
    }

    /// Returns the fuller one of both.
    pub(super) fn or(self, other: Self) -> Self {
        if other.used * self.max > self.used * other.max { other } else { self }
    }
}

/// The markup of one platform.
pub(super) trait Dialect {
    /// Returns true if `label` can be shown as a link to `url`, which has no blanks, quotes or brackets.
    fn links(&self, label: &str, url: &str) -> bool;
    fn quote(&self) -> QuoteStyle;
    fn marker(&self, marker: Marker) -> String;
    /// The prefix of a heading. None if headings are bold text instead.
    fn heading(&self, level: u8) -> Option<&'static str>;
    /// Writes one line of text.
    fn line(&self, out: &mut String, pieces: &[Piece<'_>]);
    /// Renders a code block that is not blank.
    fn code(&self, language: &str, code: &str) -> String;
    /// Returns true if a text may contain characters that the platform parses as markup even if they are
    /// escaped.
    fn misreads(&self, _: &str) -> bool {
        false
    }
    /// Returns `text` as plain text in this markup.
    fn escaped(&self, text: &str) -> String;
    /// Returns how much of a message's limits `chunk` uses.
    fn load(&self, chunk: &str, size: Size) -> Load {
        Load { used: text::length(chunk, size.unit), max: size.max }
    }
    /// Converts a chunk back to plain text.
    fn plain(&self, chunk: &str, size: Size) -> String;
}

/// Markup of a quote.
pub(super) enum QuoteStyle {
    Around { open: &'static str, close: &'static str },
    Lines { prefix: &'static str, holds_code: bool },
}

/// Returns true if `url` begins with one of `schemes`.
pub(super) fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty() && schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

/// Invisible separator between backticks that would otherwise form a fence.
const APART: char = '\u{200b}';

/// Returns `text` without three backticks in a row: neither Discord nor Slack has another way to show
/// them.
pub(super) fn without_fences(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut ticks = 0;
    for char in text.chars() {
        if char == '`' && ticks == 2 {
            out.push(APART);
            ticks = 0;
        }
        ticks = if char == '`' { ticks + 1 } else { 0 };
        out.push(char);
    }
    out
}

/// Reverses [`without_fences`].
pub(super) fn with_fences(text: &str) -> String {
    text.replace("``\u{200b}`", "```")
}
