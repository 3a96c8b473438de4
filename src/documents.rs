//! The text of documents that people send: PDFs and office documents. A process of our own binary reads each,
//! without files, network or other processes (`sandbox::reader`), because anybody may have written it. Not
//! here: pictures, and files of plain text.

mod helper;
mod office;
mod pdf;
pub mod text;

use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::sandbox::Sandbox;
use crate::sandbox::helper::{self as process, HelperError, HelperLimits};
use text::{DocumentText, TEXT_BYTES_MAX, UnreadDocument};

/// Maximum size of a document that is read, in bytes. Parsed, it takes several times as much memory.
pub const DOCUMENT_BYTES_MAX: u64 = 50_000_000;

/// Limits of one document: its result is a text in which each byte may be escaped.
const LIMITS: HelperLimits =
    HelperLimits { time: Duration::from_secs(20), result_bytes: 6 * TEXT_BYTES_MAX as u64 + 1024 };

/// Maximum time that a document waits in the queue.
const QUEUE_TIME_MAX: Duration = Duration::from_secs(60);

/// Documents that are read at a time: a small board has memory for one.
const AT_ONCE_MAX: usize = 1;

/// Extensions of office documents, which are archives.
const OFFICE_ENDINGS: [&str; 6] = ["docx", "xlsx", "pptx", "odt", "ods", "odp"];

/// The program's hidden first argument.
const ENTRY: &str = "__document";

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentForm {
    Pdf,
    /// Office Open XML or OpenDocument.
    Office,
}

impl DocumentForm {
    /// Detects a document from the first bytes of a file, and its name. None if its text is not read.
    pub fn detect(head: &[u8], name: &str) -> Option<Self> {
        match head {
            [b'%', b'P', b'D', b'F', b'-', ..] => Some(Self::Pdf),
            [b'P', b'K', 3, 4, ..] if has_office_ending(name) => Some(Self::Office),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Office => "office",
        }
    }
}

/// Returns true if a file has the name of a document, whose text only its record has.
pub fn has_document_ending(name: &str) -> bool {
    has_ending(name, &["pdf"]) || has_office_ending(name)
}

fn has_office_ending(name: &str) -> bool {
    has_ending(name, &OFFICE_ENDINGS)
}

fn has_ending(name: &str, endings: &[&str]) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    endings.iter().any(|known| known.eq_ignore_ascii_case(ending))
}

/// Reads documents, each in a process of its own.
#[derive(Clone, Debug)]
pub struct DocumentReader {
    program: PathBuf,
    slots: Arc<Semaphore>,
}

impl Default for DocumentReader {
    fn default() -> Self {
        Self::new(Sandbox::THIS_PROGRAM)
    }
}

impl DocumentReader {
    /// Creates a reader that runs this program, which is our own binary.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), slots: Arc::new(Semaphore::new(AT_ONCE_MAX)) }
    }

    /// Returns the text of a document.
    pub async fn read(
        &self,
        form: DocumentForm,
        file: File,
        size: u64,
    ) -> Result<DocumentText, UnreadDocument> {
        if size > DOCUMENT_BYTES_MAX {
            return Err(UnreadDocument::TooLarge);
        }
        let slot = timeout(QUEUE_TIME_MAX, self.slots.acquire()).await;
        let _slot = slot.map_err(|_| UnreadDocument::TooSlow)?.expect("the slots are never closed");
        match process::run(&self.program, &[ENTRY, form.as_str()], file, LIMITS).await {
            Ok(result) => serde_json::from_slice(&result).unwrap_or(Err(UnreadDocument::Broken)),
            Err(HelperError::TooSlow) => Err(UnreadDocument::TooSlow),
            Err(error) => {
                tracing::warn!(%error, "Cannot run the process that reads documents");
                Err(UnreadDocument::Broken)
            }
        }
    }
}

/// Runs the hidden entry if these are its arguments. It has to be called before anything else.
pub fn run_entry(args: impl Iterator<Item = impl AsRef<OsStr>>) -> Option<ExitCode> {
    let args: Vec<_> = args.take(3).collect();
    let [_, entry, form] = args.as_slice() else { return None };
    if entry.as_ref() != ENTRY {
        return None;
    }
    let forms = [DocumentForm::Pdf, DocumentForm::Office];
    let form = forms.into_iter().find(|known| form.as_ref() == known.as_str());
    Some(form.map_or(ExitCode::FAILURE, helper::run))
}
