//! Writes the HTML of Telegram's Bot API (parse_mode `HTML`).

use super::dialect::{Dialect, Load, QuoteStyle, Size, has_scheme};
use super::document::{Marker, Piece};
use crate::channels::markup::emphasis::{self, Attribute, EmphasisSpan};
use crate::channels::text;

/// Maximum number of entities. Telegram ignores further formatting in a message (Bot API, "Formatting
/// options").
const ENTITIES_MAX: usize = 100;
/// Maximum ratio of a chunk's length to its visible length, to keep requests small.
const RAW_MAX: usize = 3;

pub(super) struct Html;

impl Dialect for Html {
    fn links(&self, _: &str, url: &str) -> bool {
        has_scheme(url, &["http", "https", "tg", "mailto"])
    }

    fn quote(&self) -> QuoteStyle {
        QuoteStyle::Around { open: "<blockquote>", close: "</blockquote>" }
    }

    fn marker(&self, marker: Marker) -> String {
        marker.shown()
    }

    fn heading(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn line(&self, out: &mut String, pieces: &[Piece<'_>]) {
        let spans = emphasis::settle(pieces, &|group| {
            // Telegram does not support code inside of other formatting.
            let is_code = |span: &EmphasisSpan<'_>| span.style.code && span.url.is_none();
            (!group.spans.iter().any(is_code)).then_some(match group.attribute {
                Attribute::Bold => ("<b>", "</b>"),
                Attribute::Italic => ("<i>", "</i>"),
                Attribute::Strike => ("<s>", "</s>"),
            })
        });
        emphasis::write(out, &spans, &mut |out, span| match span.url {
            Some(url) => {
                let url = escaped(url).replace('"', "&quot;");
                out.push_str(&format!("<a href=\"{url}\">{}</a>", escaped(span.text)));
            }
            None if span.style.code => {
                out.push_str(&format!("<code>{}</code>", escaped(span.text)));
            }
            None => out.push_str(&escaped(span.text)),
        });
    }

    fn code(&self, language: &str, code: &str) -> String {
        let code = escaped(code);
        if language.is_empty() {
            return format!("<pre>{code}</pre>");
        }
        format!("<pre><code class=\"language-{language}\">{code}</code></pre>")
    }

    fn escaped(&self, text: &str) -> String {
        escaped(text)
    }

    fn load(&self, chunk: &str, size: Size) -> Load {
        let tags = chunk.matches('<').count() - chunk.matches("</").count();
        let raw = text::length(chunk, size.unit);
        let shown = text::length(&shown(chunk, false), size.unit);
        Load { used: shown, max: size.max }
            .or(Load { used: raw, max: size.max * RAW_MAX })
            .or(Load { used: tags, max: ENTITIES_MAX })
    }

    /// Includes the addresses of links, unless the result would be too long.
    fn plain(&self, chunk: &str, size: Size) -> String {
        let whole = shown(chunk, true);
        if text::length(&whole, size.unit) > size.max { shown(chunk, false) } else { whole }
    }
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(char),
        }
    }
    out
}

pub(super) fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Returns the text of a rendered chunk, optionally with the addresses of links.
fn shown(chunk: &str, with_addresses: bool) -> String {
    let mut out = String::with_capacity(chunk.len());
    let mut address = None;
    for (at, part) in chunk.split('<').enumerate() {
        let (tag, text) =
            if at > 0 { part.split_once('>').unwrap_or((part, "")) } else { ("", part) };
        if let Some(url) = tag.strip_prefix("a href=\"") {
            address = Some(unescaped(url.trim_end_matches('"'))).filter(|_| with_addresses);
        } else if tag == "/a"
            && let Some(url) = address.take()
        {
            out.push_str(&format!(" ({url})"));
        }
        out.push_str(&unescaped(text));
    }
    out
}
