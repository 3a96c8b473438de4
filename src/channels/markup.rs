//! Converts CommonMark, as models write it, into the platforms' formats, in chunks within their limits: the
//! only place that does. Pure. A text is parsed once into a flat [`Document`] and cut there, so that a
//! platform's markup is never cut: formatting is closed at a cut, and reopened in the next chunk.

mod chunks;
mod dialect;
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

pub use super::api::Markup;
use super::api::Unit;
use super::text;
use dialect::{Dialect, Size};
use document::Document;
pub use unescape::unescaped;

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

/// Converts a chunk back to plain text, for a platform that refuses its markup. Omits the addresses of links
/// if the text would otherwise be longer than `max` `unit`s.
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
