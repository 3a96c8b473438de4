//! The text of a document, within its bounds, or the reason why there is none.

use serde::{Deserialize, Serialize};

/// Maximum length of a kept text, in bytes: a book of 200 pages.
pub const TEXT_BYTES_MAX: usize = 512 * 1024;

/// The text of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentText {
    pub text: String,
    /// True if the document has more text.
    pub is_cut: bool,
}

/// The reason why a document has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum UnreadDocument {
    #[error("it is protected by a password")]
    Locked,
    #[error("it has no text, perhaps only pictures")]
    Empty,
    #[error("it is damaged, or of an unknown form")]
    Broken,
    #[error("it is too large")]
    TooLarge,
    #[error("reading it took too long")]
    TooSlow,
}

/// A text of at most [`TEXT_BYTES_MAX`], without control characters and runs of empty lines.
#[derive(Default)]
pub(super) struct BoundedText {
    text: String,
    is_full: bool,
}

impl BoundedText {
    pub(super) fn push(&mut self, piece: &str) {
        for character in piece.chars() {
            match character {
                '\n' => self.end_line(),
                '\t' => self.separate('\t'),
                character if character.is_control() => {}
                character if self.text.len() + character.len_utf8() > TEXT_BYTES_MAX => {
                    self.is_full = true
                }
                character => self.text.push(character),
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
            self.push_char('\n');
        }
    }

    /// Begins a line, unless one has begun.
    pub(super) fn begin_line(&mut self) {
        if !self.text.ends_with('\n') {
            self.end_line();
        }
    }

    /// Separates two words, unless they are separated already.
    pub(super) fn separate(&mut self, character: char) {
        if !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
            self.push_char(character);
        }
    }

    /// Returns the trimmed text, or an error if it is empty.
    pub(super) fn into_document(self) -> Result<DocumentText, UnreadDocument> {
        match self.text.trim() {
            "" => Err(UnreadDocument::Empty),
            trimmed => Ok(DocumentText { text: trimmed.to_owned(), is_cut: self.is_full }),
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    fn push_char(&mut self, character: char) {
        if self.text.len() < TEXT_BYTES_MAX {
            self.text.push(character);
        } else {
            self.is_full = true;
        }
    }
}
