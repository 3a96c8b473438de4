//! Renders tables, which no chat platform supports: in columns of code, or as a list if that would be too
//! wide or would lose something.

use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

use super::document::{BlockKind, Flow, Marker, Style};

/// Maximum width of a table in columns: a desktop's width. Wider ones would be wrapped.
const COLUMNS_MAX: usize = 60;

pub(super) struct Table {
    alignments: Vec<Alignment>,
    /// The first is the head.
    pub rows: Vec<Vec<Flow>>,
}

/// A leaf of the document that shows a part of a table.
pub(super) struct Block {
    pub kind: BlockKind,
    pub flow: Flow,
    pub marker: Option<Marker>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    /// Renders the table as leaves of the document.
    pub(super) fn lay_out(mut self) -> Vec<Block> {
        let widths = self.widths();
        let total = widths.iter().sum::<usize>() + 3 * widths.len().saturating_sub(1);
        if total <= COLUMNS_MAX && self.is_simple() {
            return vec![self.columns(&widths)];
        }
        if self.rows.len() == 1 {
            let cells = self.rows.remove(0);
            return vec![joined(cells.iter().map(|cell| (None, cell)), " | ", None)];
        }
        self.list()
    }

    /// Returns true if columns of code show everything: no links and no line ends inside cells.
    fn is_simple(&self) -> bool {
        self.rows.iter().flatten().all(|cell| {
            !cell.text.contains('\n') && cell.runs.iter().all(|run| run.style.link.is_none())
        })
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.text.trim().width().max(*width);
            }
        }
        widths
    }

    fn columns(&self, widths: &[usize]) -> Block {
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (at, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| {
                    let text = row.get(column).map_or("", |cell| cell.text.trim());
                    let alignment = self.alignments.get(column).copied();
                    padded(text, *width, alignment.unwrap_or(Alignment::None))
                })
                .collect();
            lines.push(cells.join(" | ").trim_end().to_owned());
            if at == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                lines.push(rule.join("-|-"));
            }
        }
        let mut flow = Flow::default();
        flow.push(&lines.join("\n"), Style::default());
        Block { kind: BlockKind::Code { language: String::new() }, flow, marker: None }
    }

    /// Creates one list item for each row: "header: value", one per line.
    fn list(self) -> Vec<Block> {
        let mut rows = self.rows.into_iter();
        let head = rows.next().unwrap_or_default();
        rows.map(|row| {
            let cells = row.iter().enumerate().map(|(at, cell)| (head.get(at), cell));
            joined(cells, "\n", Some(Marker::Bullet))
        })
        .filter(|block| !block.flow.text.is_empty())
        .collect()
    }
}

fn joined<'a>(
    cells: impl Iterator<Item = (Option<&'a Flow>, &'a Flow)>,
    between: &str,
    marker: Option<Marker>,
) -> Block {
    let mut flow = Flow::default();
    for (head, cell) in cells.filter(|(_, cell)| !cell.text.trim().is_empty()) {
        if !flow.text.is_empty() {
            flow.push(between, Style::default());
        }
        if let Some(head) = head.filter(|head| !head.text.trim().is_empty()) {
            flow.append(head, Style { bold: true, ..Style::default() });
            flow.push(": ", Style::default());
        }
        flow.append(cell, Style::default());
    }
    Block { kind: BlockKind::Text, flow, marker }
}

fn padded(text: &str, width: usize, alignment: Alignment) -> String {
    let padding = width.saturating_sub(text.width());
    let left = match alignment {
        Alignment::None | Alignment::Left => 0,
        Alignment::Center => padding / 2,
        Alignment::Right => padding,
    };
    format!("{}{text}{}", " ".repeat(left), " ".repeat(padding - left))
}
