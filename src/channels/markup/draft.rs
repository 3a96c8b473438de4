//! The parser's state: the leaf under construction, and the lists and quotes around it.

use super::document::{BlockKind, Flow, Marker, Style};

/// A leaf under construction.
pub(super) struct DocumentDraft {
    pub flow: Flow,
    pub kind: BlockKind,
    pub quote: u32,
    pub indent: usize,
    pub marker: Option<Marker>,
    pub loose: bool,
    /// Offset in the source, if it is a link definition.
    pub definition: Option<usize>,
}

impl DocumentDraft {
    pub(super) fn new(kind: BlockKind) -> Self {
        let flow = Flow::default();
        Self { flow, kind, quote: 0, indent: 0, marker: None, loose: false, definition: None }
    }

    /// Returns the draft without the white space around it. Returns the marker if nothing is left.
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

/// Number of open elements of each kind.
#[derive(Default)]
pub(super) struct Depths {
    pub bold: usize,
    pub italic: usize,
    pub strike: usize,
}

/// The outermost open link or image. Everything inside of it is its label.
pub(super) struct OpenLink {
    pub url: String,
    /// Start of its label.
    pub start: usize,
    /// Number of open links and images, with those inside.
    pub depth: usize,
    /// True for an address in `<>` without a label.
    pub bare: bool,
    pub around: Style,
}

/// The open lists and quotes.
#[derive(Default)]
pub(super) struct DraftPlace {
    pub quotes: u32,
    pub quote_depth: usize,
    /// For each list the next number, if it is numbered.
    pub lists: Vec<Option<u64>>,
    /// The width of each item's marker.
    pub widths: Vec<usize>,
    pub indent: usize,
    /// Marker of the item whose first text has not been read yet.
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
