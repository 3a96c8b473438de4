//! The process that reads one document from its standard input, and writes the text to its standard output.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use super::text::{BoundedText, DocumentText, UnreadDocument};
use super::{DOCUMENT_BYTES_MAX, DocumentForm, office, pdf};
use crate::sandbox;

/// Reads a document and prints its text as JSON.
pub(super) fn run(form: DocumentForm) -> ExitCode {
    let printed = sandbox::reader::confine().and_then(|()| {
        let mut bytes = Vec::new();
        io::stdin().lock().take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes)?;
        let result = read_text(form, bytes);
        let mut out = io::stdout().lock();
        out.write_all(&serde_json::to_vec(&result)?)?;
        out.flush()
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn read_text(form: DocumentForm, bytes: Vec<u8>) -> Result<DocumentText, UnreadDocument> {
    let mut text = BoundedText::default();
    match form {
        DocumentForm::Pdf => pdf::read(&bytes, &mut text)?,
        DocumentForm::Office => office::read(bytes, &mut text)?,
    }
    text.into_document()
}
