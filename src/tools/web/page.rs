//! Converts a fetched body to text for a model: by its type, in its own character set, HTML as Markdown.
//! Fetches nothing. Runs in the process of `helper.rs`, except for the earlier check of media types.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use serde::{Deserialize, Serialize};
use url::Url;

use super::html;

/// Maximum size of a kept text: many times what a model gets at once.
pub(super) const TEXT_BYTES_MAX: usize = 512 * 1024;

/// Maximum length of a media type. The longest existing one has some 70 characters.
const TYPE_CHARS_MAX: usize = 80;

/// Bytes in which browsers look for a page's character set.
const META_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct WebPage {
    pub(super) url: Url,
    pub(super) title: Option<String>,
    pub(super) text: String,
    /// The reason if it is incomplete.
    pub(super) cut: Option<String>,
}

/// The text of a page, as the helper process returns it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageText {
    pub(super) title: Option<String>,
    pub(super) text: String,
    pub(super) cut: Option<PageCut>,
}

/// The reason why a text is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub(super) enum PageCut {
    #[error("only its beginning was read, as its HTML is very large")]
    Html,
    #[error("only its first {TEXT_BYTES_MAX} bytes are kept")]
    Text,
}

/// The reason why a page has no text. A process that a page has taken over can choose one, and say no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub(super) enum UnreadPage {
    #[error("it is a PDF, whose text cannot be read here")]
    Pdf,
    #[error("it is not text")]
    NotText,
    #[error("it is not text, though its server says so")]
    NotAsSaid,
    #[error("its HTML broke my reader")]
    Broken,
    #[error("reading it took too long")]
    TooSlow,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Html,
    Text,
    /// To be detected by its beginning.
    Unknown,
}

/// Returns an explanation if a body of this type cannot be read.
pub(super) fn check_type(content_type: Option<&str>) -> Result<(), String> {
    classify(content_type).map(drop)
}

fn classify(content_type: Option<&str>) -> Result<Type, String> {
    let kind: String =
        content_type.map(essence).unwrap_or_default().chars().take(TYPE_CHARS_MAX).collect();
    if kind.is_empty() {
        return Ok(Type::Unknown);
    }
    let (family, name) = kind.split_once('/').unwrap_or((&kind, ""));
    let is_text = name.ends_with("+json") || name.ends_with("+xml") || name.ends_with("+yaml");
    match (family, name) {
        ("text", "html") | ("application", "xhtml+xml") => Ok(Type::Html),
        ("text", _) => Ok(Type::Text),
        ("application", "octet-stream" | "binary" | "x-download") => Ok(Type::Unknown),
        (
            "application",
            "json" | "xml" | "javascript" | "x-javascript" | "ecmascript" | "yaml" | "x-yaml"
            | "toml" | "x-ndjson" | "sql" | "x-sh" | "rtf" | "graphql",
        ) => Ok(Type::Text),
        _ if is_text => Ok(Type::Text),
        ("application", "pdf") => Err(UnreadPage::Pdf.to_string()),
        ("image" | "audio" | "video", _) => Err(format!("it is not text but {family} ({kind})")),
        _ => Err(format!("it is not readable text ({kind})")),
    }
}

/// Returns `text/html` for `text/html; charset=utf-8`.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Parses a body. Takes long for a long page, and blocks.
pub(super) fn read(
    url: &Url,
    content_type: Option<&str>,
    bytes: &[u8],
) -> Result<PageText, UnreadPage> {
    let kind = match classify(content_type).map_err(|_| UnreadPage::NotText)? {
        Type::Unknown => sniff(bytes)?,
        kind => kind,
    };
    let decoded = decode(bytes, content_type, kind);
    if kind == Type::Text && decoded.contains('\0') {
        return Err(UnreadPage::NotAsSaid);
    }
    let mut cut = None;
    let (title, mut text) = match kind {
        Type::Html => {
            let html::ReadHtml { title, text, whole } = html::read(&decoded, url);
            cut = (!whole).then_some(PageCut::Html);
            (title, text)
        }
        Type::Text | Type::Unknown => (None, decoded),
    };
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        cut.get_or_insert(PageCut::Text);
    }
    Ok(PageText { title, text, cut })
}

fn sniff(bytes: &[u8]) -> Result<Type, UnreadPage> {
    let head = &bytes[..bytes.len().min(META_BYTES)];
    if head.starts_with(b"%PDF-") {
        return Err(UnreadPage::Pdf);
    }
    let is_wide = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    if head.contains(&0) && !is_wide {
        return Err(UnreadPage::NotText);
    }
    let head = String::from_utf8_lossy(head).to_lowercase();
    let is_html =
        ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| head.contains(tag));
    Ok(if is_html { Type::Html } else { Type::Text })
}

/// Decodes a body: by a byte order mark, the header, the page's own declaration, or its bytes, in this
/// order.
fn decode(bytes: &[u8], content_type: Option<&str>, kind: Type) -> String {
    let declared = content_type.and_then(charset).or_else(|| match kind {
        Type::Html => charset(&String::from_utf8_lossy(&bytes[..bytes.len().min(META_BYTES)]))
            // A page whose declaration is readable as ASCII is not in UTF-16, whatever it declares.
            .map(Encoding::output_encoding),
        Type::Text | Type::Unknown => None,
    });
    let (bytes, encoding) = match Encoding::for_bom(bytes) {
        Some((encoding, length)) => (&bytes[length..], encoding),
        None => (bytes, declared.unwrap_or_else(|| guess(bytes))),
    };
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

/// Returns the encoding after `charset=`, in a header or in a `<meta>`.
fn charset(text: &str) -> Option<&'static Encoding> {
    let text = text.to_ascii_lowercase();
    let (_, rest) = text.split_once("charset")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let rest = rest.trim_start_matches(['"', '\'']);
    let name = rest.split(|c: char| c.is_whitespace() || "\"';,/>".contains(c)).next()?;
    Encoding::for_label(name.as_bytes())
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        // The end may be cut within a character.
        Err(error) if error.error_len().is_none() => UTF_8,
        Err(_) => WINDOWS_1252,
    }
}
