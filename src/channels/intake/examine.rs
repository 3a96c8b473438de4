//! Creates the record of a fetched file, with its hash, and with the text of a document.

use std::fs::File;
use std::io::{self, Read, Seek};

use sha2::{Digest, Sha256};

use super::Fetcher;
use crate::bus::journal::WaitingMessage;
use crate::documents::DocumentForm;
use crate::documents::text::DocumentText;
use crate::memory::attachments::NewAttachment;
use crate::short_text::{one_line, shortened};
use crate::types::hex::hex;
use crate::types::message::{Fetched, MediaRef};
use crate::workspace::{OpenedFile, WorkspacePath};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Maximum length, in characters, of the first line of a document that a model gets with a message.
const BEGINS_CHARS_MAX: usize = 100;

/// A file with its hash, and its format if it is a document.
struct ExaminedFile {
    file: File,
    size: u64,
    hash: String,
    form: Option<DocumentForm>,
}

impl Fetcher {
    /// Returns the outcome for a file with the beginning of its text, and its record. No record if it cannot be read.
    pub(super) async fn examine(
        &self,
        row: &WaitingMessage,
        folder: &WorkspacePath,
        path: WorkspacePath,
        file: &MediaRef,
        fetched: Fetched,
    ) -> (Fetched, Option<NewAttachment>) {
        let target = path.clone();
        let open_and_hash = move |workspace: &crate::workspace::Workspace| {
            let opened =
                workspace.open_without_links(&target).map_err(|error| error.to_string())?;
            hash_file(opened, target.name()).map_err(|error| error.to_string())
        };
        let examined = match self.workspace.run_blocking(open_and_hash).await {
            Ok(examined) => examined,
            Err(error) => {
                tracing::warn!(%path, error, "Cannot look at a file that has come");
                return (fetched, None);
            }
        };
        let ExaminedFile { file: content, size, hash, form } = examined;
        let (fetched, text) = match (form, &self.intake.documents, fetched) {
            (Some(form), Some(reader), Fetched::Workspace(path)) => {
                match reader.read(form, content, size).await {
                    Ok(DocumentText { text, is_cut }) => {
                        if is_cut {
                            tracing::info!(%path, "Only the beginning of a document is searched");
                        }
                        (Fetched::Read { path, begins: first_line(&text) }, Some(text))
                    }
                    Err(reason) => (Fetched::Unread { path, reason: reason.to_string() }, None),
                }
            }
            (_, _, fetched) => (fetched, None),
        };
        let record = NewAttachment {
            row: row.id.0,
            from: row.inbound.from.clone(),
            sender: row.sender().id.clone(),
            is_forwarded: file.quoted,
            folder: folder.clone(),
            path,
            name: file.name.clone(),
            mime: file.mime.clone(),
            size,
            hash,
            text,
            at: row.received,
        };
        (fetched, Some(record))
    }
}

/// Hashes a file, and detects the format of a document.
fn hash_file(opened: OpenedFile, name: &str) -> io::Result<ExaminedFile> {
    let (mut file, size) = opened.into_file();
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; PIECE_BYTES]);
    let mut form = None;
    let mut is_first = true;
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        if std::mem::take(&mut is_first) {
            form = DocumentForm::detect(&buffer[..length], name);
        }
        digest.update(&buffer[..length]);
    }
    file.rewind()?;
    Ok(ExaminedFile { file, size, hash: hex(&digest.finalize()), form })
}

/// Returns the first line that has a letter or a digit, shortened.
fn first_line(text: &str) -> String {
    let has_words = |line: &&str| line.chars().any(char::is_alphanumeric);
    let line = text.lines().find(has_words).unwrap_or_default();
    shortened(&one_line(line), BEGINS_CHARS_MAX)
}
