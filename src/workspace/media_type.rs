//! The media type of a file by its first bytes, whatever its name is, to be shown to a person. Nothing is decided by it.

use super::picture::picture_type;

/// The signatures of common kinds of files, each with its media type.
const SIGNATURES: [(&[u8], &str); 15] = [
    (b"%PDF-", "application/pdf"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/vnd.microsoft.portable-executable"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"{\\rtf", "application/rtf"),
];

/// The place of a tar archive's signature (POSIX.1-1988, ustar).
const USTAR_AT: usize = 257;

/// The place of the signature of MP4 (ISO 14496-12, `ftyp`).
const FTYP_AT: usize = 4;

/// Returns the media type of a whole file. Text has no signature: it is UTF-8 without NUL.
pub fn media_type(bytes: &[u8]) -> &'static str {
    let has_at = |at: usize, signature: &[u8]| {
        bytes.get(at..).is_some_and(|rest| rest.starts_with(signature))
    };
    if let Some(picture) = picture_type(bytes) {
        return picture;
    }
    if let Some(&(_, name)) = SIGNATURES.iter().find(|(signature, _)| has_at(0, signature)) {
        return name;
    }
    if has_at(USTAR_AT, b"ustar") {
        return "application/x-tar";
    }
    if has_at(FTYP_AT, b"ftyp") {
        return "video/mp4";
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => "text/plain",
        _ => "application/octet-stream",
    }
}
