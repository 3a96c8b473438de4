//! The one place where CommonMark, as models write it, becomes what platforms show, in chunks that
//! they take. Pure. A text is read once into a flat [`Document`] and cut there, so that nothing of
//! a platform's markup is ever cut open: what is cut is closed, and opened again in the next chunk.

mod chunks;
mod discord;
mod document;
mod draft;
mod emphasis;
mod read;
mod slack;
mod table;
mod telegram;
mod write;

use super::{Unit, text};
use document::{Document, Marker, Piece};

/// How a platform writes bold, links, code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// Nothing is read and nothing is turned into anything.
    Plain,
    /// The HTML of Telegram's Bot API.
    TelegramHtml,
    /// Discord's own markdown.
    Discord,
    /// Slack's mrkdwn.
    Slack,
}

/// The chunks of `text` in the platform's markup, each valid by itself and at most `max` (at least
/// [`text::CHUNK_MIN`]) `unit`s long. Of Telegram's HTML the text that it shows is counted, as
/// Telegram does; with its tags a chunk is at most three times `max`, and has at most 100 of them.
pub fn render(text: &str, markup: Markup, max: usize, unit: Unit) -> Vec<String> {
    let Some(dialect) = dialect(markup) else { return text::split(text, max, unit) };
    let size = Size { max: max.max(text::CHUNK_MIN), unit };
    let document = read::read(text, &|label, url| {
        label.len() + url.len() < size.link_max() && dialect.links(label, url)
    });
    chunks::cut(&document, dialect, size)
}

/// As [`render`], of a text in which no markup is read: as code if it has columns, or signs that the platform would
/// read and that cannot be escaped there.
pub fn render_printed(text: &str, markup: Markup, max: usize, unit: Unit) -> Vec<String> {
    let text = text.trim_end();
    let Some(dialect) = dialect(markup) else {
        // Cutting would take the white space away that it begins with.
        let fits = !text.is_empty() && text::length(text, unit) <= max;
        return if fits { vec![text.to_owned()] } else { text::split(text, max, unit) };
    };
    let size = Size { max: max.max(text::CHUNK_MIN), unit };
    let is_prose = !has_columns(text) && !dialect.misreads(text);
    chunks::cut(&Document::printed(text, is_prose), dialect, size)
}

/// Returns true if white space is part of how a text looks.
fn has_columns(text: &str) -> bool {
    let is_shaped =
        |line: &str| line.starts_with([' ', '\t']) || line.contains("  ") || line.contains('\t');
    text.contains("\n\n\n") || text.trim_end().lines().any(|line| is_shaped(line.trim_end()))
}

/// A chunk back as plain text, for a platform that refuses its markup. Addresses of links that would
/// make it longer than `max` `unit`s are left out.
pub fn plain(chunk: &str, markup: Markup, max: usize, unit: Unit) -> String {
    let size = Size { max, unit };
    dialect(markup).map_or_else(|| chunk.to_owned(), |dialect| dialect.plain(chunk, size))
}

fn dialect(markup: Markup) -> Option<&'static dyn Dialect> {
    match markup {
        Markup::Plain => None,
        Markup::TelegramHtml => Some(&telegram::Html),
        Markup::Discord => Some(&discord::Markdown),
        Markup::Slack => Some(&slack::Mrkdwn),
    }
}

/// The most that a chunk may be.
#[derive(Clone, Copy)]
struct Size {
    max: usize,
    unit: Unit,
}

impl Size {
    /// The bytes of a link, its address included, from which on it is written out as text: one that
    /// leaves no room for what is around it would have to be cut open.
    fn link_max(self) -> usize {
        self.max / 4 * 3
    }
}

/// How much is used of some limit.
#[derive(Clone, Copy)]
struct Load {
    used: usize,
    max: usize,
}

impl Load {
    fn fits(self) -> bool {
        self.used <= self.max
    }

    /// Whether a longer chunk is hardly worth looking for.
    fn is_nearly_full(self) -> bool {
        self.used + self.max / 16 >= self.max
    }

    /// The fuller one.
    fn or(self, other: Self) -> Self {
        if other.used * self.max > self.used * other.max { other } else { self }
    }
}

/// What differs between the platforms' markups.
trait Dialect {
    /// Whether `label` can be shown as a link to `url`, which has no blanks, quotes or brackets.
    fn links(&self, label: &str, url: &str) -> bool;
    fn quote(&self) -> QuoteStyle;
    fn marker(&self, marker: Marker) -> String;
    /// What begins a heading; none where its words are bold instead.
    fn heading(&self, level: u8) -> Option<&'static str>;
    /// One line of text.
    fn line(&self, out: &mut String, pieces: &[Piece<'_>]);
    /// A block of code that is not blank.
    fn code(&self, language: &str, code: &str) -> String;
    /// Returns true if a text may hold signs that are read as markup there though they are escaped.
    fn misreads(&self, _: &str) -> bool {
        false
    }
    /// `text` without any formatting.
    fn escaped(&self, text: &str) -> String;
    /// How much of what a message may be `chunk` is.
    fn load(&self, chunk: &str, size: Size) -> Load {
        Load { used: text::length(chunk, size.unit), max: size.max }
    }
    fn plain(&self, chunk: &str, size: Size) -> String;
}

/// How a quote is marked.
enum QuoteStyle {
    Around { open: &'static str, close: &'static str },
    Lines { prefix: &'static str, holds_code: bool },
}

/// Whether `url` begins with one of `schemes`.
fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty() && schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

/// What keeps backticks apart that would be a fence otherwise. Not seen.
const APART: char = '\u{200b}';

/// `text` with no three backticks in a row: neither Discord nor Slack has another way to show them.
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

/// What [`without_fences`] had been given.
fn with_fences(text: &str) -> String {
    text.replace("``\u{200b}`", "```")
}
