//! The text of a PDF, page by page, in the order in which the pages draw it.

use std::collections::BTreeMap;

use lopdf::content::{Content, Operation};
use lopdf::{Document, Encoding, Error, LoadOptions, Object, ObjectId};

use super::text::{BoundedText, UnreadDocument};

/// Pages that are read.
const PAGES_MAX: usize = 5_000;

/// Maximum size of one unpacked stream, in bytes: a small file can unpack to gigabytes.
const STREAM_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A gap between two pieces of a line that is a space, in thousandths of the font's size: a third of a usual space is
/// only kerning.
const SPACE_FROM: f32 = 150.0;

/// A movement that is another line, in units of the page.
const LINE_FROM: f32 = 1.0;

pub(super) fn read(bytes: &[u8], text: &mut BoundedText) -> Result<(), UnreadDocument> {
    let options =
        LoadOptions { max_decompressed_size: Some(STREAM_BYTES_MAX), ..LoadOptions::default() };
    let document =
        Document::load_mem_with_options(bytes, options).map_err(|error| match error {
            Error::InvalidPassword | Error::Decryption(_) => UnreadDocument::Locked,
            _ => UnreadDocument::Broken,
        })?;
    if document.is_encrypted() {
        return Err(UnreadDocument::Locked);
    }
    for page in document.page_iter().take(PAGES_MAX) {
        // A page that cannot be read does not stop the others.
        read_page(&document, page, text).ok();
        text.begin_line();
        text.end_line();
        if text.is_full() {
            break;
        }
    }
    Ok(())
}

fn read_page(document: &Document, page: ObjectId, text: &mut BoundedText) -> lopdf::Result<()> {
    let fonts: BTreeMap<_, _> = document
        .get_page_fonts(page)?
        .into_iter()
        .filter_map(|(name, font)| {
            Some((name, font.get_font_encoding_with_limit(document, STREAM_BYTES_MAX).ok()?))
        })
        .collect();
    let content = document.get_page_content_with_limit(page, STREAM_BYTES_MAX)?;
    let mut reader = PageReader { fonts: &fonts, font: None, line: 0.0, text };
    for operation in Content::decode(&content)?.operations {
        reader.follow(&operation);
    }
    Ok(())
}

struct PageReader<'a> {
    fonts: &'a BTreeMap<Vec<u8>, Encoding<'a>>,
    font: Option<&'a Encoding<'a>>,
    /// The height of the present line.
    line: f32,
    text: &'a mut BoundedText,
}

impl PageReader<'_> {
    /// Carries out an operator that shows text or moves to where text is shown (ISO 32000-1, 9.4).
    fn follow(&mut self, operation: &Operation) {
        let operands = &operation.operands;
        let number = |at: usize| operands.get(at).and_then(|it| it.as_float().ok());
        match operation.operator.as_str() {
            "Tf" => {
                let name = operands.first().and_then(|name| name.as_name().ok());
                self.font = name.and_then(|name| self.fonts.get(name));
            }
            "Td" | "TD" => match number(1) {
                Some(down) if down.abs() >= LINE_FROM => self.text.begin_line(),
                _ => self.text.separate(' '),
            },
            "Tm" => {
                let height = number(5).unwrap_or_default();
                match (height - self.line).abs() >= LINE_FROM {
                    true => self.text.begin_line(),
                    false => self.text.separate(' '),
                }
                self.line = height;
            }
            "T*" | "ET" => self.text.begin_line(),
            "Tj" => self.show(operands),
            "TJ" => {
                operands.iter().filter_map(|it| it.as_array().ok()).for_each(|it| self.show(it))
            }
            "'" | "\"" => {
                self.text.begin_line();
                self.show(operands);
            }
            _ => {}
        }
    }

    fn show(&mut self, pieces: &[Object]) {
        for piece in pieces {
            match piece {
                Object::String(bytes, _) => {
                    let Some(font) = self.font else { continue };
                    if let Ok(words) = Document::decode_text(font, bytes) {
                        self.text.push(&words);
                    }
                }
                // It moves to the left.
                gap if gap.as_float().is_ok_and(|gap| gap <= -SPACE_FROM) => {
                    self.text.separate(' ')
                }
                _ => {}
            }
        }
    }
}
