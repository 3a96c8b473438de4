//! A parsed text, independent of the platform. It is flat: blocks and formatted runs are ranges of one string,
//! so that a part is a range, and nothing here recurses.

use std::ops::Range;

/// A parsed text with its blocks, formatted runs and links.
#[derive(Default)]
pub(super) struct Document {
    /// The visible text without markers. Leaves are separated by one line end, or two.
    pub text: String,
    pub leaves: Vec<Leaf>,
    /// Together they cover the leaves.
    pub runs: Vec<StyledRun>,
    pub links: Vec<String>,
}

/// A block that has text: a paragraph, a heading, code.
pub(super) struct Leaf {
    pub range: Range<usize>,
    pub kind: BlockKind,
    /// The number of the quote around it. 0 outside of quotes.
    pub quote: u32,
    /// The column of its text.
    pub indent: usize,
    /// The marker before its first line.
    pub marker: Option<Marker>,
    /// True if an empty line precedes it.
    pub loose: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    Heading(u8),
    Code { language: String },
}

#[derive(Clone, Copy)]
pub(super) enum Marker {
    Bullet,
    Number(u64),
    Task { done: bool },
}

impl Marker {
    /// Returns its width in columns, with the blank after it.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Bullet | Self::Task { .. } => 2,
            Self::Number(number) => number.checked_ilog10().unwrap_or(0) as usize + 3,
        }
    }

    /// Returns the form that most platforms show.
    pub(super) fn shown(self) -> String {
        match self {
            Self::Bullet => "• ".to_owned(),
            Self::Number(number) => format!("{number}. "),
            Self::Task { done } => format!("{} ", checkbox(done)),
        }
    }
}

pub(super) fn checkbox(done: bool) -> char {
    if done { '☑' } else { '☐' }
}

pub(super) struct StyledRun {
    pub range: Range<usize>,
    pub style: Style,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub bold: bool,
    pub italic: bool,
    pub strike: bool,
    pub code: bool,
    /// Index in [`Document::links`]. Each link has its own entry, and is one run.
    pub link: Option<usize>,
}

/// A part of a line in one style.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub text: &'a str,
    pub style: Style,
    pub url: Option<&'a str>,
}

impl Document {
    /// Creates a document from a text whose markup is not parsed.
    pub(super) fn printed(text: &str, is_prose: bool) -> Self {
        let mut flow = Flow::default();
        flow.push(text, Style::default());
        let kind =
            if is_prose { BlockKind::Text } else { BlockKind::Code { language: String::new() } };
        let range = 0..flow.text.len();
        let leaf = Leaf { range, kind, quote: 0, indent: 0, marker: None, loose: false };
        Self { text: flow.text, leaves: vec![leaf], runs: flow.runs, links: Vec::new() }
    }

    /// Returns the leaves that have text in `range`.
    pub(super) fn leaves_in(&self, range: &Range<usize>) -> &[Leaf] {
        let first = self.leaves.partition_point(|leaf| leaf.range.end <= range.start);
        let end = self.leaves.partition_point(|leaf| leaf.range.start < range.end);
        &self.leaves[first..end.max(first)]
    }

    /// Returns the lines of `range`, which lies within one leaf.
    pub(super) fn lines(&self, range: &Range<usize>) -> Vec<Vec<Piece<'_>>> {
        let mut lines = vec![Vec::new()];
        let first = self.runs.partition_point(|run| run.range.end <= range.start);
        for run in self.runs[first..].iter().take_while(|run| run.range.start < range.end) {
            let part = run.range.start.max(range.start)..run.range.end.min(range.end);
            let url = run.style.link.map(|link| self.links[link].as_str());
            for (at, text) in self.text[part].split('\n').enumerate() {
                if at > 0 {
                    lines.push(Vec::new());
                }
                if !text.is_empty()
                    && let Some(line) = lines.last_mut()
                {
                    line.push(Piece { text, style: run.style, url });
                }
            }
        }
        lines
    }

    /// Returns the start of the link that a cut at `at` would split.
    pub(super) fn link_around(&self, at: usize) -> Option<usize> {
        let run = &self.runs[self.runs.partition_point(|run| run.range.end <= at)..].first()?;
        (run.style.link.is_some() && run.range.start < at).then_some(run.range.start)
    }
}

/// Styled text under construction.
#[derive(Default)]
pub(super) struct Flow {
    pub text: String,
    pub runs: Vec<StyledRun>,
}

impl Flow {
    /// Adds `text` without its control characters, which no platform shows.
    pub(super) fn push(&mut self, text: &str, style: Style) {
        let start = self.text.len();
        self.text.extend(text.chars().filter(|char| is_shown(*char)));
        let end = self.text.len();
        match self.runs.last_mut() {
            Some(run) if run.style == style => run.range.end = end,
            _ if end > start => self.runs.push(StyledRun { range: start..end, style }),
            _ => {}
        }
    }

    /// Reduces it to `range`.
    pub(super) fn trim(&mut self, range: Range<usize>) {
        self.text.truncate(range.end);
        self.text.drain(..range.start);
        for run in &mut self.runs {
            run.range.start = run.range.start.clamp(range.start, range.end) - range.start;
            run.range.end = run.range.end.clamp(range.start, range.end) - range.start;
        }
        self.runs.retain(|run| !run.range.is_empty());
    }

    pub(super) fn append(&mut self, other: &Self, style: Style) {
        for run in &other.runs {
            let bold = run.style.bold || style.bold;
            self.push(&other.text[run.range.clone()], Style { bold, ..run.style });
        }
    }
}

pub(super) fn is_shown(char: char) -> bool {
    !char.is_control() || matches!(char, '\n' | '\t')
}
