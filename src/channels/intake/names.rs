//! Chooses the path of an incoming file: a safe name with an extension.

use chrono::{DateTime, Utc};

use crate::bus::journal::RowId;
use crate::types::message::{MediaKind, MediaRef};
use crate::workspace::WorkspacePath;

/// Maximum number of characters that are kept of a file's own name. More does not help a reader.
const NAME_CHARS_MAX: usize = 80;

/// Maximum number of bytes of a name. With the prefix it must fit into a file system's limit.
pub const NAME_BYTES_MAX: usize = 150;

/// Maximum number of characters of an extension.
const EXTENSION_CHARS_MAX: usize = 8;

/// Media types and their common extensions.
const EXTENSIONS: [(&str, &str); 24] = [
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

/// Returns a safe name for a file: nothing in it can lead to another folder, or look like something else.
pub fn name(file: &MediaRef) -> String {
    let own_name = file.name.as_deref().unwrap_or_default();
    let own_name = own_name.rsplit(['/', '\\']).next().unwrap_or_default();
    let (stem, extension) = match own_name.rsplit_once('.') {
        Some((stem, extension))
            if (1..=EXTENSION_CHARS_MAX).contains(&extension.chars().count()) =>
        {
            (safe(stem), safe(extension))
        }
        _ => (safe(own_name), String::new()),
    };
    let stem = if stem.is_empty() { default_stem(file.kind).to_owned() } else { stem };
    let extension =
        if extension.is_empty() { default_extension(file).to_owned() } else { extension };
    let suffix = if extension.is_empty() { String::new() } else { format!(".{extension}") };
    let mut name = String::new();
    for char in stem.chars().take(NAME_CHARS_MAX - suffix.chars().count()) {
        if name.len() + char.len_utf8() + suffix.len() > NAME_BYTES_MAX {
            break;
        }
        name.push(char);
    }
    name + &suffix
}

/// Keeps letters and digits of any script, and replaces everything between them by `-`.
fn safe(text: &str) -> String {
    let mut safe = String::new();
    for char in text.chars() {
        match char {
            char if char.is_alphanumeric() || char == '_' => safe.push(char),
            _ if safe.is_empty() || safe.ends_with('-') => {}
            _ => safe.push('-'),
        }
    }
    safe.truncate(safe.trim_end_matches('-').len());
    safe
}

fn default_stem(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Image => "photo",
        MediaKind::Audio => "audio",
        MediaKind::Voice => "voice",
        MediaKind::Video => "video",
        MediaKind::Document => "file",
        MediaKind::Sticker => "sticker",
    }
}

/// Returns the extension for the media type, else the one that most platforms send for that kind.
fn default_extension(file: &MediaRef) -> &'static str {
    let mime = file.mime.as_deref().and_then(|mime| mime.split(';').next()).unwrap_or_default();
    let known = EXTENSIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(mime.trim()));
    known.map(|(_, extension)| *extension).unwrap_or(match file.kind {
        MediaKind::Image => "jpg",
        MediaKind::Audio => "mp3",
        MediaKind::Voice => "ogg",
        MediaKind::Video => "mp4",
        MediaKind::Sticker => "webp",
        MediaKind::Document => "",
    })
}
