//! Names an incoming file, and detects its type from its bytes.

use chrono::{DateTime, Utc};

use crate::bus::journal::RowId;
use crate::types::message::{MediaKind, MediaRef};
use crate::workspace::WorkspacePath;

/// Maximum number of characters that are kept of a file's own name. More is of no use to a reader.
const NAME_CHARS_MAX: usize = 80;

/// Maximum number of bytes of a name. With the prefix it must fit into a file system's limit.
pub const NAME_BYTES_MAX: usize = 150;

/// Maximum number of characters of an extension.
const ENDING_CHARS_MAX: usize = 8;

/// Media types and their common extensions.
const ENDINGS: [(&str, &str); 24] = [
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/webp", "webp"),
    ("image/gif", "gif"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "ogg"),
    ("audio/mpeg", "mp3"),
    ("audio/mp4", "m4a"),
    ("audio/x-m4a", "m4a"),
    ("audio/aac", "aac"),
    ("audio/wav", "wav"),
    ("audio/webm", "webm"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("video/quicktime", "mov"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
    ("application/vnd.oasis.opendocument.presentation", "odp"),
    ("text/plain", "txt"),
];

/// Returns the path of a message's file in a folder. Always the same for the same file of the same message.
pub(super) fn path(
    folder: &WorkspacePath,
    row: (RowId, DateTime<Utc>),
    n: usize,
    file: &MediaRef,
) -> WorkspacePath {
    let (id, received) = row;
    let (month, name) = (received.format("%Y-%m"), name(file));
    let path = format!("{folder}/{month}/{}-{n}-{name}", id.0);
    path.parse().expect("a name of letters, digits and a few signs is one")
}

/// Returns a safe name for a file: nothing in it can lead elsewhere, or pass for something else.
pub fn name(file: &MediaRef) -> String {
    let own = file.name.as_deref().unwrap_or_default();
    let own = own.rsplit(['/', '\\']).next().unwrap_or_default();
    let (stem, ending) = match own.rsplit_once('.') {
        Some((stem, ending)) if (1..=ENDING_CHARS_MAX).contains(&ending.chars().count()) => {
            (safe(stem), safe(ending))
        }
        _ => (safe(own), String::new()),
    };
    let stem = if stem.is_empty() { word(file.kind).to_owned() } else { stem };
    let ending = if ending.is_empty() { known_ending(file).to_owned() } else { ending };
    let dotted = if ending.is_empty() { String::new() } else { format!(".{ending}") };
    let mut name = String::new();
    for sign in stem.chars().take(NAME_CHARS_MAX - dotted.chars().count()) {
        if name.len() + sign.len_utf8() + dotted.len() > NAME_BYTES_MAX {
            break;
        }
        name.push(sign);
    }
    name + &dotted
}

/// Keeps letters and digits of any script, and replaces everything between them by `-`.
fn safe(text: &str) -> String {
    let mut safe = String::new();
    for sign in text.chars() {
        match sign {
            sign if sign.is_alphanumeric() || sign == '_' => safe.push(sign),
            _ if safe.is_empty() || safe.ends_with('-') => {}
            _ => safe.push('-'),
        }
    }
    safe.truncate(safe.trim_end_matches('-').len());
    safe
}

fn word(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Image => "photo",
        MediaKind::Audio => "audio",
        MediaKind::Voice => "voice",
        MediaKind::Video => "video",
        MediaKind::Document => "file",
        MediaKind::Sticker => "sticker",
    }
}

/// The extension for the media type, else the one that most platforms send for that kind.
fn known_ending(file: &MediaRef) -> &'static str {
    let mime = file.mime.as_deref().and_then(|mime| mime.split(';').next()).unwrap_or_default();
    let known = ENDINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(mime.trim()));
    known.map(|(_, ending)| *ending).unwrap_or(match file.kind {
        MediaKind::Image => "jpg",
        MediaKind::Audio => "mp3",
        MediaKind::Voice => "ogg",
        MediaKind::Video => "mp4",
        MediaKind::Sticker => "webp",
        MediaKind::Document => "",
    })
}
