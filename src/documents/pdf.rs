//! The text of a PDF, page by page, in the order in which the pages draw it.

use std::collections::BTreeMap;

use lopdf::content::{Content, Operation};
use lopdf::{Dictionary, Document, Encoding, Error, LoadOptions, Object, ObjectId, Stream};

use super::text::{BoundedText, UnreadDocument};

/// Maximum number of pages that are read.
const PAGES_MAX: usize = 5_000;

/// Maximum size of one unpacked stream, in bytes: a small file can unpack to gigabytes.
const STREAM_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum depth of forms in forms: writers of PDFs nest a page once or twice.
const FORM_DEPTH_MAX: usize = 4;

/// Maximum number of forms that are read in a document: a small file can show one a billion times. A debug
/// build reads so many in some seconds.
const FORMS_MAX: usize = 2_000;

/// Minimum gap between two pieces of a line that counts as a space, in thousandths of the font size. A third of
/// a usual space is only kerning.
const SPACE_MIN: f32 = 150.0;

/// Minimum vertical movement that begins another line, in units of the page.
const LINE_MIN: f32 = 1.0;

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
    let mut forms_left = FORMS_MAX;
    for page in document.page_iter().take(PAGES_MAX) {
        // A page that cannot be read does not stop the others.
        read_page(&document, page, &mut forms_left, text).ok();
        text.begin_line();
        text.end_line();
        if text.is_full() {
            break;
        }
    }
    Ok(())
}

fn read_page(
    document: &Document,
    page: ObjectId,
    forms_left: &mut usize,
    text: &mut BoundedText,
) -> lopdf::Result<()> {
    let content = document.get_page_content_with_limit(page, STREAM_BYTES_MAX)?;
    let resources = PdfResources::of_page(document, page)?;
    let reader = ContentReader {
        document,
        resources: &resources,
        font: None,
        line: 0.0,
        depth: 0,
        forms_left,
        text,
    };
    reader.read(&content)
}

/// The fonts and forms of a content stream, by their names in it.
#[derive(Default)]
struct PdfResources<'a> {
    fonts: BTreeMap<Vec<u8>, Encoding<'a>>,
    forms: BTreeMap<Vec<u8>, &'a Stream>,
}

impl<'a> PdfResources<'a> {
    fn of_page(document: &'a Document, page: ObjectId) -> lopdf::Result<Self> {
        let (direct, referred) = document.get_page_resources(page)?;
        let referred = referred.into_iter().filter_map(|id| document.get_dictionary(id).ok());
        let mut resources = Self::default();
        // The page's own resources come first, and take precedence.
        direct.into_iter().chain(referred).for_each(|it| resources.add(document, it));
        Ok(resources)
    }

    /// Returns the resources of a form. None if it uses those of its page.
    fn of_form(document: &'a Document, form: &'a Stream) -> Option<Self> {
        let mut resources = Self::default();
        resources.add(document, document.get_dict_in_dict(&form.dict, b"Resources").ok()?);
        Some(resources)
    }

    fn add(&mut self, document: &'a Document, resources: &'a Dictionary) {
        let entries = |key: &[u8]| {
            let entries = document.get_dict_in_dict(resources, key).ok();
            entries.into_iter().flat_map(Dictionary::iter).filter_map(|(name, object)| {
                Some((name.clone(), document.dereference(object).ok()?.1))
            })
        };
        for (name, font) in entries(b"Font") {
            let encoding = font
                .as_dict()
                .and_then(|it| it.get_font_encoding_with_limit(document, STREAM_BYTES_MAX));
            if let Ok(encoding) = encoding {
                self.fonts.entry(name).or_insert(encoding);
            }
        }
        for (name, object) in entries(b"XObject") {
            let form = object.as_stream().ok().filter(|it| is_form(&it.dict));
            if let Some(form) = form {
                self.forms.entry(name).or_insert(form);
            }
        }
    }
}

fn is_form(dictionary: &Dictionary) -> bool {
    dictionary.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Form")
}

/// Reads the content stream of a page or a form.
struct ContentReader<'a> {
    document: &'a Document,
    resources: &'a PdfResources<'a>,
    font: Option<&'a Encoding<'a>>,
    /// The vertical position of the current line.
    line: f32,
    /// Number of forms around this content stream.
    depth: usize,
    forms_left: &'a mut usize,
    text: &'a mut BoundedText,
}

impl ContentReader<'_> {
    fn read(mut self, content: &[u8]) -> lopdf::Result<()> {
        for operation in Content::decode(content)?.operations {
            self.execute(&operation);
        }
        Ok(())
    }

    /// Carries out an operator that shows text or moves to where text is shown (ISO 32000-1, 9.4), or that shows a form
    /// (8.10).
    fn execute(&mut self, operation: &Operation) {
        let operands = &operation.operands;
        let number = |at: usize| operands.get(at).and_then(|it| it.as_float().ok());
        let name = || operands.first().and_then(|name| name.as_name().ok());
        match operation.operator.as_str() {
            "Tf" => self.font = name().and_then(|name| self.resources.fonts.get(name)),
            "Do" => {
                let form = name().and_then(|name| self.resources.forms.get(name).copied());
                form.into_iter().for_each(|form| self.read_form(form));
            }
            "Td" | "TD" => match number(1) {
                Some(down) if down.abs() >= LINE_MIN => self.text.begin_line(),
                _ => self.text.separate(' '),
            },
            "Tm" => {
                let height = number(5).unwrap_or_default();
                match (height - self.line).abs() >= LINE_MIN {
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

    /// Reads a form. One that cannot be read does not stop the rest of its page.
    fn read_form(&mut self, form: &Stream) {
        if self.depth == FORM_DEPTH_MAX || *self.forms_left == 0 || self.text.is_full() {
            return;
        }
        *self.forms_left -= 1;
        self.text.begin_line();
        if let Ok(content) = form.get_plain_content_with_limit(STREAM_BYTES_MAX) {
            let form_resources = PdfResources::of_form(self.document, form);
            let reader = ContentReader {
                document: self.document,
                resources: form_resources.as_ref().unwrap_or(self.resources),
                font: None,
                line: 0.0,
                depth: self.depth + 1,
                forms_left: self.forms_left,
                text: self.text,
            };
            reader.read(&content).ok();
        }
        self.text.begin_line();
    }

    fn show(&mut self, pieces: &[Object]) {
        for object in pieces {
            match object {
                Object::String(bytes, _) => {
                    let Some(font) = self.font else { continue };
                    if let Ok(piece) = Document::decode_text(font, bytes) {
                        self.text.push(&piece);
                    }
                }
                // The number is subtracted from the position, so a negative one is a gap.
                gap if gap.as_float().is_ok_and(|gap| gap <= -SPACE_MIN) => self.text.separate(' '),
                _ => {}
            }
        }
    }
}
