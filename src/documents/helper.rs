//! The process that reads one document: from its standard input, to its standard output, and nothing else.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use super::{
    DOCUMENT_BYTES_MAX, DocumentForm, DocumentText, TEXT_BYTES_MAX, UnreadDocument, office, pdf,
};
use crate::sandbox;

/// Reads a document and prints its text as JSON.
pub(super) fn run(form: DocumentForm) -> ExitCode {
    let printed = sandbox::reader::confine().and_then(|()| {
        let mut bytes = Vec::new();
        io::stdin().lock().take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes)?;
        let result = text_of(form, bytes);
        let mut out = io::stdout().lock();
        out.write_all(&serde_json::to_vec(&result)?)?;
        out.flush()
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn text_of(form: DocumentForm, bytes: Vec<u8>) -> Result<DocumentText, UnreadDocument> {
    let mut text = BoundedText::default();
    match form {
        DocumentForm::Pdf => pdf::read(&bytes, &mut text)?,
        DocumentForm::Office => office::read(bytes, &mut text)?,
    }
    match text.text.trim() {
        "" => Err(UnreadDocument::Empty),
        trimmed => Ok(DocumentText { text: trimmed.to_owned(), is_cut: text.is_full }),
    }
}

/// A text that takes no more than [`TEXT_BYTES_MAX`], and has no control characters and no runs of empty lines.
#[derive(Default)]
pub(super) struct BoundedText {
    text: String,
    is_full: bool,
}

impl BoundedText {
    pub(super) fn push(&mut self, piece: &str) {
        for sign in piece.chars() {
            match sign {
                '\n' => self.end_line(),
                '\t' => self.separate('\t'),
                sign if sign.is_control() => {}
                sign if self.text.len() + sign.len_utf8() > TEXT_BYTES_MAX => self.is_full = true,
                sign => self.text.push(sign),
            }
            if self.is_full {
                return;
            }
        }
    }

    /// Ends a line; at most one empty line follows.
    pub(super) fn end_line(&mut self) {
        self.text.truncate(self.text.trim_end_matches([' ', '\t']).len());
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.push_sign('\n');
        }
    }

    /// Begins a line, unless one has begun.
    pub(super) fn begin_line(&mut self) {
        if !self.text.ends_with('\n') {
            self.end_line();
        }
    }

    /// Separates two words, unless they are.
    pub(super) fn separate(&mut self, sign: char) {
        if !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
            self.push_sign(sign);
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    fn push_sign(&mut self, sign: char) {
        if self.text.len() < TEXT_BYTES_MAX {
            self.text.push(sign);
        } else {
            self.is_full = true;
        }
    }
}
