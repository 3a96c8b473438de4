//! Renders a part of a document in a dialect. The result is valid by itself, wherever the part begins and
//! ends.

use std::ops::Range;

use super::dialect::{Dialect, QuoteStyle};
use super::document::{BlockKind, Document, Leaf, Piece};

pub(super) fn write(document: &Document, range: &Range<usize>, dialect: &dyn Dialect) -> String {
    let out = String::with_capacity(range.len() + range.len() / 4);
    let mut page = ChunkPage { document, dialect, out, quote: 0 };
    for leaf in document.leaves_in(range) {
        let part = leaf.range.start.max(range.start)..leaf.range.end.min(range.end);
        let part = trimmed(document, leaf, part);
        if !part.is_empty() {
            page.leaf(leaf, &part);
        }
    }
    page.change_quote(0);
    page.out
}

/// Returns `part` of `leaf` without invisible white space around it.
fn trimmed(document: &Document, leaf: &Leaf, part: Range<usize>) -> Range<usize> {
    let text = &document.text[part.clone()];
    let end = part.start + text.trim_end().len();
    let start = match leaf.kind {
        BlockKind::Code { .. } => part.start,
        BlockKind::Text | BlockKind::Heading(_) => part.end - text.trim_start().len(),
    };
    start.min(end)..end
}

struct ChunkPage<'a> {
    document: &'a Document,
    dialect: &'a dyn Dialect,
    out: String,
    /// The number of the open quote.
    quote: u32,
}

impl ChunkPage<'_> {
    fn leaf(&mut self, leaf: &Leaf, part: &Range<usize>) {
        let is_code = matches!(leaf.kind, BlockKind::Code { .. });
        let quote = match self.dialect.quote() {
            QuoteStyle::Lines { holds_code: false, .. } if is_code => 0,
            _ => leaf.quote,
        };
        self.separate(leaf.loose, quote);
        self.change_quote(quote);
        let marker = leaf.marker.filter(|_| part.start == leaf.range.start);
        let width = marker.map_or(0, super::document::Marker::width);
        let mut lead = " ".repeat(leaf.indent.saturating_sub(width));
        lead.extend(marker.map(|marker| self.dialect.marker(marker)));
        match &leaf.kind {
            BlockKind::Code { language } => {
                let code = self.dialect.code(language, &self.document.text[part.clone()]);
                self.code(&lead, marker.is_some(), &code);
            }
            BlockKind::Text => self.text(leaf, part, lead),
            BlockKind::Heading(level) => match self.dialect.heading(*level) {
                Some(sign) => self.text(leaf, part, lead + sign),
                None => self.text(leaf, part, lead),
            },
        }
    }

    fn text(&mut self, leaf: &Leaf, part: &Range<usize>, lead: String) {
        let is_bold = match leaf.kind {
            BlockKind::Heading(level) => self.dialect.heading(level).is_none(),
            BlockKind::Text | BlockKind::Code { .. } => false,
        };
        let mut lead = lead;
        for (at, mut line) in self.document.lines(part).into_iter().enumerate() {
            if at > 0 {
                self.out.push('\n');
            }
            self.begin_line();
            if !line.is_empty() {
                if is_bold {
                    line.iter_mut().for_each(|piece: &mut Piece<'_>| piece.style.bold = true);
                }
                self.out.push_str(&lead);
                self.dialect.line(&mut self.out, &line);
            }
            if at == 0 {
                lead = " ".repeat(leaf.indent);
            }
        }
    }

    /// Writes code from the first column, also inside of lists.
    fn code(&mut self, lead: &str, is_marked: bool, code: &str) {
        for (at, line) in code.split('\n').enumerate() {
            if at > 0 {
                self.out.push('\n');
            }
            self.begin_line();
            if at == 0 && is_marked {
                self.out.push_str(lead);
            }
            self.out.push_str(line);
        }
    }

    /// Ends the line before a leaf.
    fn separate(&mut self, loose: bool, quote: u32) {
        if self.out.is_empty() {
            return;
        }
        if quote != self.quote {
            self.change_quote(0);
        }
        self.out.push('\n');
        if loose {
            self.begin_line();
            self.out.push('\n');
        }
    }

    /// Closes the open quote, and opens another. 0 is none.
    fn change_quote(&mut self, quote: u32) {
        if let QuoteStyle::Around { open, close } = self.dialect.quote()
            && self.quote != quote
        {
            self.out.push_str(if self.quote != 0 { close } else { "" });
            self.out.push_str(if quote != 0 { open } else { "" });
        }
        self.quote = quote;
    }

    fn begin_line(&mut self) {
        if let QuoteStyle::Lines { prefix, .. } = self.dialect.quote()
            && self.quote != 0
        {
            self.out.push_str(prefix);
        }
    }
}
