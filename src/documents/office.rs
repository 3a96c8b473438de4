//! The text of office documents: archives of XML, of which only elements with text are read. Entities that a document
//! declares are not expanded.

use std::io::{BufRead, BufReader, Cursor, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};
use zip::ZipArchive;
use zip::result::ZipError;

use super::text::{BoundedText, UnreadDocument};

/// Maximum size of one unpacked part, in bytes: a small archive can unpack to gigabytes.
const PART_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Maximum number of slides or sheets that are read.
const PARTS_MAX: usize = 1_000;

/// Maximum number of shared strings, which cells refer to by index, and of their bytes.
const SHARED_MAX: usize = 200_000;
const SHARED_BYTES_MAX: usize = 16 * 1024 * 1024;

type OfficeArchive = ZipArchive<Cursor<Vec<u8>>>;

/// The elements of a part that have text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextElements {
    /// Elements `t`, in Office Open XML.
    Runs,
    /// All elements within a paragraph, in OpenDocument.
    Paragraphs,
}

pub(super) fn read(bytes: Vec<u8>, text: &mut BoundedText) -> Result<(), UnreadDocument> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|_| UnreadDocument::Broken)?;
    let has = |name: &str| archive.index_for_name(name).is_some();
    if has("word/document.xml") {
        read_part(&mut archive, "word/document.xml", TextElements::Runs, text)?;
        // A document may have no notes.
        for more in ["word/footnotes.xml", "word/endnotes.xml"] {
            read_part(&mut archive, more, TextElements::Runs, text).ok();
        }
        Ok(())
    } else if has("ppt/presentation.xml") {
        for slide in numbered(&archive, "ppt/slides/slide") {
            read_part(&mut archive, &slide, TextElements::Runs, text)?;
            text.end_line();
        }
        Ok(())
    } else if has("xl/workbook.xml") {
        read_sheets(&mut archive, text)
    } else if has("content.xml") {
        read_part(&mut archive, "content.xml", TextElements::Paragraphs, text)
    } else {
        Err(UnreadDocument::Broken)
    }
}

/// Returns the names of the parts `PREFIX`, number, `.xml`, in the order of their numbers.
fn numbered(archive: &OfficeArchive, prefix: &str) -> Vec<String> {
    let number = |name: &str| {
        let number = name.strip_prefix(prefix)?.strip_suffix(".xml")?;
        number.parse::<u32>().ok()
    };
    let mut parts: Vec<_> = archive
        .file_names()
        .filter_map(|name| {
            let name = name.ok()?.into_owned();
            Some((number(&name)?, name))
        })
        .take(PARTS_MAX)
        .collect();
    parts.sort();
    parts.into_iter().map(|(_, name)| name).collect()
}

fn open<'a>(
    archive: &'a mut OfficeArchive,
    name: &str,
) -> Result<Reader<impl BufRead + use<'a>>, UnreadDocument> {
    let part = archive.by_name(name).map_err(|error| match error {
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) => UnreadDocument::Locked,
        _ => UnreadDocument::Broken,
    })?;
    Ok(Reader::from_reader(BufReader::new(part.take(PART_BYTES_MAX))))
}

fn read_part(
    archive: &mut OfficeArchive,
    name: &str,
    elements: TextElements,
    text: &mut BoundedText,
) -> Result<(), UnreadDocument> {
    let mut xml = open(archive, name)?;
    let mut buffer = Vec::new();
    let mut depth = 0_usize;
    while !text.is_full() {
        buffer.clear();
        match xml.read_event_into(&mut buffer) {
            Ok(Event::Eof) => break,
            Ok(Event::Start(element)) => {
                depth += usize::from(has_text(&element, elements));
                separate(&element, text);
            }
            Ok(Event::Empty(element)) => separate(&element, text),
            Ok(Event::End(element)) => match element.local_name().as_ref() {
                name if is_text_element(name, elements) => {
                    depth = depth.saturating_sub(1);
                    if elements == TextElements::Paragraphs {
                        text.begin_line();
                    }
                }
                "p" | "tr" | "table-row" => text.begin_line(),
                "tc" | "table-cell" => text.separate('\t'),
                _ => {}
            },
            Ok(Event::Text(piece)) if depth > 0 => text.push(&piece),
            Ok(Event::CData(piece)) if depth > 0 => text.push(&piece),
            Ok(Event::GeneralRef(entity)) if depth > 0 => push_entity(&entity, text),
            Ok(_) => {}
            // The text before the error is kept.
            Err(_) => break,
        }
    }
    Ok(())
}

fn has_text(element: &BytesStart<'_>, elements: TextElements) -> bool {
    is_text_element(element.local_name().as_ref(), elements)
}

fn is_text_element(name: &str, elements: TextElements) -> bool {
    match elements {
        TextElements::Runs => name == "t",
        TextElements::Paragraphs => name == "p" || name == "h",
    }
}

fn separate(element: &BytesStart<'_>, text: &mut BoundedText) {
    match element.local_name().as_ref() {
        "br" | "cr" | "line-break" => text.begin_line(),
        "tab" => text.separate('\t'),
        "s" => text.separate(' '),
        _ => {}
    }
}

fn push_entity(entity: &BytesRef<'_>, text: &mut BoundedText) {
    let character = entity.resolve_char_ref().ok().flatten().or_else(|| match &entity[..] {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    });
    if let Some(character) = character {
        text.push(character.encode_utf8(&mut [0; 4]));
    }
}

fn read_sheets(archive: &mut OfficeArchive, text: &mut BoundedText) -> Result<(), UnreadDocument> {
    // A workbook without texts has no shared strings.
    let shared = shared_texts(archive).unwrap_or_default();
    for sheet in numbered(archive, "xl/worksheets/sheet") {
        let mut xml = open(archive, &sheet)?;
        let mut buffer = Vec::new();
        let (mut is_shared, mut is_value) = (false, false);
        while !text.is_full() {
            buffer.clear();
            match xml.read_event_into(&mut buffer) {
                Ok(Event::Eof) | Err(_) => break,
                Ok(Event::Start(element)) => match element.local_name().as_ref() {
                    "c" => {
                        let kind = element.try_get_attribute("t").ok().flatten();
                        is_shared = kind.is_some_and(|kind| kind.value.as_ref() == "s");
                    }
                    "v" | "t" => is_value = true,
                    _ => {}
                },
                Ok(Event::End(element)) => match element.local_name().as_ref() {
                    "v" | "t" => is_value = false,
                    "c" => text.separate('\t'),
                    "row" => text.begin_line(),
                    _ => {}
                },
                Ok(Event::Text(piece)) if is_value && is_shared => {
                    let index = piece.trim().parse::<usize>();
                    if let Some(string) = index.ok().and_then(|index| shared.get(index)) {
                        text.push(string);
                    }
                }
                Ok(Event::Text(piece)) if is_value => text.push(&piece),
                Ok(Event::GeneralRef(entity)) if is_value => push_entity(&entity, text),
                Ok(_) => {}
            }
        }
        text.end_line();
    }
    Ok(())
}

/// Returns the shared strings, which cells refer to by index.
fn shared_texts(archive: &mut OfficeArchive) -> Result<Vec<String>, UnreadDocument> {
    let mut xml = open(archive, "xl/sharedStrings.xml")?;
    let mut buffer = Vec::new();
    let (mut texts, mut bytes) = (Vec::new(), 0);
    let (mut string, mut is_text) = (String::new(), false);
    while texts.len() < SHARED_MAX && bytes < SHARED_BYTES_MAX {
        buffer.clear();
        match xml.read_event_into(&mut buffer) {
            Ok(Event::Eof) | Err(_) => break,
            Ok(Event::Start(element)) => is_text |= element.local_name().as_ref() == "t",
            Ok(Event::End(element)) => match element.local_name().as_ref() {
                "t" => is_text = false,
                "si" => {
                    bytes += string.len();
                    texts.push(std::mem::take(&mut string));
                }
                _ => {}
            },
            Ok(Event::Text(part)) if is_text => string.push_str(&part),
            Ok(Event::GeneralRef(entity)) if is_text => {
                let mut character = BoundedText::default();
                push_entity(&entity, &mut character);
                string.push_str(&character.into_text());
            }
            Ok(_) => {}
        }
    }
    Ok(texts)
}
