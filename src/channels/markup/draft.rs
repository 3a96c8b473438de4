//! What is open while a text is read: the leaf that is being written, the lists and quotes it is in.

use super::document::{BlockKind, Flow, Marker, Style};

/// A leaf that is being written.
pub(super) struct DocumentDraft {
    pub flow: Flow,
    pub kind: BlockKind,
    pub quote: u32,
    pub indent: usize,
    pub marker: Option<Marker>,
    pub loose: bool,
    /// Where it stands, if it is a link's definition.
    pub definition: Option<usize>,
}

impl DocumentDraft {
    pub(super) fn new(kind: BlockKind) -> Self {
        let flow = Flow::default();
        Self { flow, kind, quote: 0, indent: 0, marker: None, loose: false, definition: None }
    }

    /// The draft without the white space around it; gives the marker back if nothing is left.
    pub(super) fn trimmed(mut self) -> Result<Self, Option<Marker>> {
        let text = &self.flow.text;
        let end = text.trim_end().len();
        let start = match self.kind {
            BlockKind::Code { .. } => 0,
            BlockKind::Text | BlockKind::Heading(_) => text.len() - text.trim_start().len(),
        };
        if end <= start {
            return Err(self.marker);
        }
        self.flow.trim(start..end);
        Ok(self)
    }
}

/// How many of each are open.
#[derive(Default)]
pub(super) struct Depths {
    pub bold: usize,
    pub italic: usize,
    pub strike: usize,
}

/// The outermost link or image that is open; what is inside of it is its label.
pub(super) struct OpenLink {
    pub url: String,
    /// Where its label begins.
    pub start: usize,
    /// How many are open, with those inside.
    pub depth: usize,
    /// Whether it is only an address in `<>`.
    pub bare: bool,
    pub around: Style,
}

/// The lists and quotes that are open.
#[derive(Default)]
pub(super) struct DraftPlace {
    pub quotes: u32,
    pub quote_depth: usize,
    /// For each list the next number, if it has numbers.
    pub lists: Vec<Option<u64>>,
    /// The width of each item's marker.
    pub widths: Vec<usize>,
    pub indent: usize,
    /// Of the item whose first text has not come yet.
    pub marker: Option<Marker>,
}

impl DraftPlace {
    pub(super) fn open_item(&mut self) {
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                Marker::Number(*number - 1)
            }
            _ => Marker::Bullet,
        };
        self.marker = Some(marker);
        self.widths.push(marker.width());
        self.indent += marker.width();
    }

    pub(super) fn close_item(&mut self) {
        self.marker = None;
        self.indent -= self.widths.pop().unwrap_or(0);
    }

    pub(super) fn open_quote(&mut self) {
        self.quotes += u32::from(self.quote_depth == 0);
        self.quote_depth += 1;
    }

    pub(super) fn quote(&self) -> u32 {
        if self.quote_depth > 0 { self.quotes } else { 0 }
    }
}
