//! Cuts a document into chunks. A candidate is rendered before it is measured, so the counted length is
//! the length that is sent.

use std::ops::Range;

use super::dialect::{Dialect, Load, Size};
use super::document::{BlockKind, Document};
use super::write;
use crate::channels::text;

pub(super) fn cut(document: &Document, dialect: &dyn Dialect, size: Size) -> Vec<String> {
    let cutter = Cutter { document, dialect, size };
    let mut chunks = Vec::new();
    let mut from = 0;
    while from < document.text.len() {
        let (chunk, end) = cutter.chunk(from);
        if !chunk.trim().is_empty() {
            chunks.push(chunk);
        }
        from = cutter.resume(end);
    }
    chunks
}

/// Amount of markup in a chunk.
#[derive(Clone, Copy)]
enum ChunkForm {
    Whole,
    /// Only the text, if even one character does not fit with its markup.
    Bare,
}

struct Cutter<'a> {
    document: &'a Document,
    dialect: &'a dyn Dialect,
    size: Size,
}

impl Cutter<'_> {
    /// Returns the chunk that begins at `from`, and its end, which is after `from`.
    fn chunk(&self, from: usize) -> (String, usize) {
        for form in [ChunkForm::Whole, ChunkForm::Bare] {
            let Some(limit) = self.limit(from, form) else { continue };
            let best = self.best_break(from, limit);
            // An earlier place may need more markup.
            let fitting = [best, limit].into_iter().find_map(|end| {
                let chunk = self.render(from..end, form);
                self.dialect.load(&chunk, self.size).fits().then_some((chunk, end))
            });
            if let Some(found) = fitting {
                return found;
            }
        }
        // Not reached: one escaped character is shorter than the smallest `max`.
        let end = self.document.text.ceil_char_boundary(from + 1);
        (self.render(from..end, ChunkForm::Bare), end)
    }

    fn render(&self, range: Range<usize>, form: ChunkForm) -> String {
        match form {
            ChunkForm::Whole => write::write(self.document, &range, self.dialect),
            ChunkForm::Bare => self.dialect.escaped(self.document.text[range].trim()),
        }
    }

    fn load(&self, range: Range<usize>, form: ChunkForm) -> Load {
        self.dialect.load(&self.render(range, form), self.size)
    }

    /// Returns the last place up to which the text from `from` fits, or nearly the last. None if nothing
    /// fits.
    fn limit(&self, from: usize, form: ChunkForm) -> Option<usize> {
        let text = &self.document.text;
        // Markup only adds length.
        let mut over = from + text::fitting(&text[from..], self.size.max, self.size.unit);
        let mut load = self.load(from..over, form);
        if load.fits() {
            return Some(over);
        }
        // Estimates the fitting length by assuming that the rest is like the part that was tried. If that
        // fails, bisects.
        let mut next = from + (over - from) * load.max / load.used;
        let mut fitting = from;
        loop {
            let mut at = text.floor_char_boundary(next.min(over - 1));
            if at <= fitting {
                at = text.ceil_char_boundary(fitting + 1);
            }
            if at >= over {
                return (fitting > from).then_some(fitting);
            }
            load = self.load(from..at, form);
            if !load.fits() {
                over = at;
            } else if load.is_nearly_full() {
                return Some(at);
            } else {
                fitting = at;
            }
            next = fitting.midpoint(over);
        }
    }

    /// Returns the best place up to `limit` to end the chunk that begins at `from`.
    fn best_break(&self, from: usize, limit: usize) -> usize {
        let text = &self.document.text;
        if limit == text.len() {
            return limit;
        }
        // A better kind of break does not justify a chunk that is nearly empty.
        let floor = from + (limit - from) / 3;
        let mut best = [None; 4];
        let mut mark = |kind: usize, at: usize| best[..=kind].fill(Some(at));
        let leaves = self.document.leaves_in(&(from..limit));
        for (number, leaf) in leaves.iter().enumerate() {
            let start = leaf.range.start.max(from);
            let end = leaf.range.end.min(limit + 1);
            let is_code = matches!(leaf.kind, BlockKind::Code { .. });
            let mut before = None;
            for (at, char) in text[start..leaf.range.end].char_indices() {
                if start + at >= end {
                    break;
                }
                if before.is_some()
                    && let Some(kind) =
                        text::break_kind(&text[start + at..leaf.range.end], before, is_code)
                    && self.document.link_around(start + at).is_none()
                {
                    mark(kind, start + at);
                }
                if before.is_some() || !char.is_whitespace() {
                    before = Some(char);
                }
            }
            // A heading stays with the text below it.
            if leaf.range.end <= limit && !matches!(leaf.kind, BlockKind::Heading(_)) {
                let is_loose = leaves.get(number + 1).is_none_or(|next| next.loose);
                mark(if is_loose { 3 } else { 2 }, leaf.range.end);
            }
        }
        let [word, better @ ..] = best;
        let better = better.into_iter().rev().flatten().find(|at| *at > floor);
        better.or(word).unwrap_or_else(|| {
            let at = from + text::between_clusters(&text[from..], limit - from);
            self.document.link_around(at).filter(|start| *start > from).unwrap_or(at)
        })
    }

    /// Returns the start of the next chunk after one that ended at `end`, without the white space
    /// between.
    fn resume(&self, end: usize) -> usize {
        let text = &self.document.text;
        let next = self.document.leaves.partition_point(|leaf| leaf.range.end <= end);
        let Some(leaf) = self.document.leaves.get(next) else { return text.len() };
        if end <= leaf.range.start {
            return leaf.range.start;
        }
        let rest = &text[end..];
        match leaf.kind {
            BlockKind::Code { .. } => text.len() - rest.strip_prefix('\n').unwrap_or(rest).len(),
            BlockKind::Text | BlockKind::Heading(_) => text.len() - rest.trim_start().len(),
        }
    }
}
