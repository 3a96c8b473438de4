//! The only place that converts CommonMark, as models write it, into the platforms' formats, in chunks
//! within their limits. Pure. A text is parsed once into a flat [`Document`] and cut there, so that a
//! platform's markup is never cut: formatting is closed at a cut, and reopened in the next chunk.

mod chunks;
mod discord;
mod document;
mod draft;
mod emphasis;
mod read;
mod slack;
mod table;
mod telegram;
mod unescape;
mod write;

use super::{Unit, text};
use document::{Document, Marker, Piece};
pub use unescape::unescaped;

/// Text format of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// The text is neither parsed nor converted.
    Plain,
    /// Markdown as it was written, for a person to read: only its backslash escapes are taken away.
    Terminal,
    /// The HTML of Telegram's Bot API.
    TelegramHtml,
    /// Discord's own markdown.
    Discord,
    /// Slack's mrkdwn.
    Slack,
}

/// Renders `text` as chunks in the platform's markup. Each is valid by itself and at most `max` (at least
/// [`text::CHUNK_MIN`]) `unit`s long. For Telegram's HTML only the visible text counts, as Telegram
/// counts; with its tags a chunk is at most three times `max`, and has at most 100 of them.
pub fn render(text: &str, markup: Markup, max: usize, unit: Unit) -> Vec<String> {
    let Some(dialect) = dialect(markup) else {
        return match markup {
            Markup::Terminal => text::split(&unescaped(text), max, unit),
            _ => text::split(text, max, unit),
        };
    };
    let size = Size { max: max.max(text::CHUNK_MIN), unit };
    let document = read::read(text, &|label, url| {
        label.len() + url.len() < size.link_max() && dialect.links(label, url)
    });
    chunks::cut(&document, dialect, size)
}

/// Renders a text without parsing markup in it. The result is a code block if the text has columns, or
/// characters that the platform would parse and that cannot be escaped there.
pub fn render_printed(text: &str, markup: Markup, max: usize, unit: Unit) -> Vec<String> {
    let text = text.trim_end();
    let Some(dialect) = dialect(markup) else {
        // Cutting would remove the leading white space.
        let fits = !text.is_empty() && text::length(text, unit) <= max;
        return if fits { vec![text.to_owned()] } else { text::split(text, max, unit) };
    };
    let size = Size { max: max.max(text::CHUNK_MIN), unit };
    let is_prose = !has_columns(text) && !dialect.misreads(text);
    chunks::cut(&Document::printed(text, is_prose), dialect, size)
}

/// Returns true if white space matters for the layout of a text.
fn has_columns(text: &str) -> bool {
    let is_shaped =
        |line: &str| line.starts_with([' ', '\t']) || line.contains("  ") || line.contains('\t');
    text.contains("\n\n\n") || text.trim_end().lines().any(|line| is_shaped(line.trim_end()))
}

/// Converts a chunk back to plain text, for a platform that refuses its markup. Omits the addresses of
/// links if the text would be longer than `max` `unit`s with them.
pub fn plain(chunk: &str, markup: Markup, max: usize, unit: Unit) -> String {
    let size = Size { max, unit };
    dialect(markup).map_or_else(|| chunk.to_owned(), |dialect| dialect.plain(chunk, size))
}

fn dialect(markup: Markup) -> Option<&'static dyn Dialect> {
    match markup {
        Markup::Plain | Markup::Terminal => None,
        Markup::TelegramHtml => Some(&telegram::Html),
        Markup::Discord => Some(&discord::Markdown),
        Markup::Slack => Some(&slack::Mrkdwn),
    }
}

/// Maximum size of a chunk.
#[derive(Clone, Copy)]
struct Size {
    max: usize,
    unit: Unit,
}

impl Size {
    /// Length in bytes, with the address, from which a link is written out as text. A longer link leaves
    /// no space for the markup around it, and would have to be cut.
    fn link_max(self) -> usize {
        self.max / 4 * 3
    }
}

/// Used share of a limit.
#[derive(Clone, Copy)]
struct Load {
    used: usize,
    max: usize,
}

impl Load {
    fn fits(self) -> bool {
        self.used <= self.max
    }

    /// Returns true if a longer chunk is not worth the search.
    fn is_nearly_full(self) -> bool {
        self.used + self.max / 16 >= self.max
    }

    /// Returns the fuller one of both.
    fn or(self, other: Self) -> Self {
        if other.used * self.max > self.used * other.max { other } else { self }
    }
}

/// The differences between the platforms' markups.
trait Dialect {
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
    /// `text` without any formatting.
    fn escaped(&self, text: &str) -> String;
    /// Returns how much of a message's limits `chunk` uses.
    fn load(&self, chunk: &str, size: Size) -> Load {
        Load { used: text::length(chunk, size.unit), max: size.max }
    }
    fn plain(&self, chunk: &str, size: Size) -> String;
}

/// Markup of a quote.
enum QuoteStyle {
    Around { open: &'static str, close: &'static str },
    Lines { prefix: &'static str, holds_code: bool },
}

/// Returns true if `url` begins with one of `schemes`.
fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty() && schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

/// Invisible separator between backticks that would otherwise form a fence.
const APART: char = '\u{200b}';

/// Returns `text` without three backticks in a row: neither Discord nor Slack has another way to show
/// them.
fn without_fences(text: &str) -> String {
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
fn with_fences(text: &str) -> String {
    text.replace("``\u{200b}`", "```")
}
