//! Files that people sent to the bot, and the bot to people.

use axum::body::Body;
use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;

use super::super::wire::Upload;
use super::Inner;
use super::state::Denial;

/// Bot API, getFile.
const GIVEN_MAX: usize = 20 << 20;
/// Bot API, "Sending files".
const TAKEN_MAX: usize = 50 << 20;
const PHOTO_MAX: usize = 10 << 20;

/// A file under a message of the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentFile {
    /// As what it is shown: `photo`, `document`, …
    pub(crate) field: &'static str,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// What `sendPhoto` and its like take as the file.
pub(super) fn field(method: &str) -> Option<&'static str> {
    ["photo", "document", "voice", "audio", "video"].into_iter().find(|field| {
        method.strip_prefix("send").is_some_and(|what| what.eq_ignore_ascii_case(field))
    })
}

/// Refuses a file that Telegram would refuse.
pub(super) fn check(field: &'static str, file: Option<&Upload>) -> Result<SentFile, Denial> {
    let file = file.ok_or_else(|| Denial::bad(&format!("there is no {field} in the request")))?;
    if file.bytes.is_empty() {
        return Err(Denial::bad("file must be non-empty"));
    }
    if file.bytes.len() > TAKEN_MAX {
        return Err(Denial::new(413, "Request Entity Too Large"));
    }
    if field == "photo" && file.bytes.len() > PHOTO_MAX {
        return Err(Denial::bad("file is too big for a photo; the maximum size is 10485760 bytes"));
    }
    if field == "photo" && !is_picture(&file.bytes) {
        return Err(Denial::bad("IMAGE_PROCESS_FAILED"));
    }
    Ok(SentFile { field, name: file.name.clone(), bytes: file.bytes.clone() })
}

fn is_picture(bytes: &[u8]) -> bool {
    [b"\x89PNG".as_slice(), b"\xff\xd8\xff", b"RIFF"].iter().any(|magic| bytes.starts_with(magic))
}

/// What `getFile` answers.
pub(super) fn locate(id: &str, file: Option<&Vec<u8>>) -> Result<Value, Denial> {
    let file =
        file.ok_or_else(|| Denial::bad("wrong file_id or the file is temporarily unavailable"))?;
    if file.len() > GIVEN_MAX {
        return Err(Denial::bad("file is too big"));
    }
    Ok(json!({
        "file_id": id, "file_unique_id": format!("u-{id}"), "file_size": file.len(),
        "file_path": format!("documents/{id}"),
    }))
}

/// Gives a file to who has the token.
pub(super) async fn give(
    Shared(inner): Shared<Arc<Inner>>,
    Path((token, path)): Path<(String, String)>,
) -> Response {
    if token != format!("bot{}", inner.look().token) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let id = path.strip_prefix("documents/").unwrap_or_default();
    let (file, hangs) = {
        let state = inner.look();
        (state.files.get(id).cloned(), state.files_hang)
    };
    match file {
        Some(_) if hangs => std::future::pending().await,
        Some(bytes) => Body::from(bytes).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
