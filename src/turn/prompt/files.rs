//! Received files, as the model is shown them: one line each, which only the program writes, and pictures
//! for models that accept images.

use crate::bus::journal::WaitingMessage;
use crate::provider::{IMAGE_BYTES_MAX, IMAGES_MAX};
use crate::turn::prompt::plain;
use crate::types::message::{Fetched, MediaKind, MediaRef, Quote};
use crate::types::session::Image;
use crate::types::source::{Source, SourcedText};
use crate::types::untrusted;

/// Maximum length of the shown reason for a missing file, in characters.
const REASON_CHARS_MAX: usize = 200;

/// Image types that models accept.
const SEEN: [&str; 4] = ["image/jpeg", "image/png", "image/webp", "image/gif"];

/// Returns the line of a file: `[photo: downloads/2026-11/12-0-cat.jpg, 640 kB]`. The transcript of a file in a
/// quoted message follows its line, as words of the quoted author. The line of a picture that a model sees, of a
/// document and of a file with a name is as untrusted as the file, because its author is unknown.
pub(super) fn line(file: &MediaRef, sender: &Source, quote: Option<&Quote>) -> SourcedText {
    let what = kind_text(file);
    let source = match (&file.name, &file.fetched) {
        (_, Some(Fetched::Read { path, .. })) => Source::File { path: path.clone() },
        (None, _) if !is_shown(file) => sender.clone(),
        (
            _,
            Some(
                Fetched::Workspace(path)
                | Fetched::Untranscribed { path, .. }
                | Fetched::Unread { path, .. },
            ),
        ) => Source::File { path: path.clone() },
        (_, None | Some(Fetched::Transcribed { .. } | Fetched::Failed(_))) => {
            Source::Quoted { author: plain(""), by_others: true }
        }
    };
    if file.quoted {
        let line = plain_line(file, &format!("{what} of the quoted message"));
        let mut line = SourcedText::of(source, line);
        if let Some(Fetched::Transcribed { words: transcript, .. }) = &file.fetched {
            let author = quote.map_or_else(|| plain(""), |quote| plain(&quote.author));
            let transcript = untrusted::normalize_newlines(transcript.trim()).replace('\n', "\n> ");
            let transcript = format!("\n> {author}: [{what}, transcribed] {transcript}");
            let by_others = quote.is_none_or(|quote| quote.by_others);
            line.push(Source::Quoted { author, by_others }, transcript);
        }
        return line;
    }
    SourcedText::of(source, plain_line(file, &what))
}

/// Returns the kind of a file, with its name if it has one.
fn kind_text(file: &MediaRef) -> String {
    match (file.kind, &file.name) {
        (MediaKind::Image, _) => "photo".to_owned(),
        (MediaKind::Voice, _) => "voice message".to_owned(),
        (MediaKind::Sticker, _) => "sticker".to_owned(),
        (MediaKind::Audio, name) => named("audio", name.as_deref()),
        (MediaKind::Video, name) => named("video", name.as_deref()),
        (MediaKind::Document, name) => named("file", name.as_deref()),
    }
}

fn plain_line(file: &MediaRef, what: &str) -> String {
    let path_text = |path: &str| match file.size {
        Some(size) => format!("{what}: {path}, {}", format_size(size)),
        None => format!("{what}: {path}"),
    };
    match &file.fetched {
        None => format!("[{what}]"),
        Some(Fetched::Workspace(path)) => format!("[{}]", path_text(path)),
        Some(Fetched::Transcribed { .. }) => format!("[{what}, transcribed]"),
        Some(Fetched::Untranscribed { path, reason }) => {
            format!("[{}; not transcribed: {}]", path_text(path), reason_text(reason))
        }
        Some(Fetched::Read { path, begins }) => {
            format!("[{}; its text begins: {}]", path_text(path), reason_text(begins))
        }
        Some(Fetched::Unread { path, reason }) => {
            format!("[{}; its text cannot be read: {}]", path_text(path), reason_text(reason))
        }
        Some(Fetched::Failed(reason)) => {
            format!("[{what}: did not arrive: {}]", reason_text(reason))
        }
    }
}

fn named(kind: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{kind} {}", plain(name)),
        None => kind.to_owned(),
    }
}

/// Returns a reason on one line, without brackets, because it may come from a platform or an API.
fn reason_text(reason: &str) -> String {
    let no_line = |c: char| !c.is_control() && !matches!(c, '[' | ']' | '\u{2028}' | '\u{2029}');
    reason.chars().filter(|c| no_line(*c)).take(REASON_CHARS_MAX).collect()
}

fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Returns the pictures of messages that are shown together.
pub(crate) fn images(rows: &[WaitingMessage]) -> Vec<Image> {
    let files = rows.iter().flat_map(|row| &row.inbound.body.media);
    let images = files.filter(|file| is_shown(file)).filter_map(|file| {
        let (Some(Fetched::Workspace(path)), Some(mime)) = (&file.fetched, &file.mime) else {
            return None;
        };
        Some(Image { path: path.clone(), mime: mime.clone() })
    });
    images.take(IMAGES_MAX).collect()
}

/// Returns true for a picture that models accept.
fn is_shown(file: &MediaRef) -> bool {
    let is_seen = file.mime.as_deref().is_some_and(|mime| SEEN.contains(&mime));
    let fits = file.size.is_some_and(|size| size <= IMAGE_BYTES_MAX);
    is_seen && fits && matches!(file.fetched, Some(Fetched::Workspace(_)))
}
