//! Parses CommonMark, with tables, strikethrough and task lists, into a [`Document`]. HTML is text. Links
//! that a platform does not support become "words (address)". Unfinished markup, as in a draft, is parsed
//! as far as possible.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd,
};

use super::document::{BlockKind, Document, Flow, Leaf, Marker, Style, StyledRun, is_shown};
use super::draft::{Depths, DocumentDraft, DraftPlace, OpenLink};
use super::table::Table;

/// Maximum indentation, in columns. On a telephone, deeper lists would not fit.
const INDENT_MAX: usize = 12;
/// Maximum nesting. The parser takes time for each open quote and list on each line.
const NESTED_MAX: usize = 100;
/// Maximum length of a language name.
const LANGUAGE_MAX: usize = 32;
const RULE: &str = "———";

/// Parses `text`. Links become text if `keeps_link` returns false for their label and address.
pub(super) fn read(text: &str, keeps_link: &dyn Fn(&str, &str) -> bool) -> Document {
    let source = clean(text);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Parser::new_ext(&source, options).into_offset_iter();
    let mut definitions: Vec<Range<usize>> =
        events.reference_definitions().iter().map(|(_, link)| link.span.clone()).collect();
    definitions.sort_by_key(|span| std::cmp::Reverse(span.start));
    let mut reader = MarkdownReader {
        source: &source,
        keeps_link,
        definitions,
        used: BTreeSet::new(),
        drafts: Vec::new(),
        open: None,
        depths: Depths::default(),
        link: None,
        links: Vec::new(),
        table: None,
        cells_end: 0,
        place: DraftPlace::default(),
    };
    while let Some((event, range)) = events.next() {
        if let Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) = &event
            && let Some(definition) = events.reference_definitions().get(id)
        {
            reader.used.insert(definition.span.start);
        }
        reader.follow_row(&event, &range);
        reader.event(event, range.start);
    }
    reader.finish()
}

/// Returns `text` with plain line ends, without control characters except tabs, and with at most
/// [`NESTED_MAX`] quotes and lists around a line: the sign of the next is escaped.
fn clean(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    if !text.chars().all(is_shown) {
        let lines = text.replace("\r\n", "\n").replace('\r', "\n");
        text = Cow::Owned(lines.chars().filter(|char| is_shown(*char)).collect());
    }
    if text.lines().all(|line| excess(line).is_none()) {
        return text;
    }
    let lines = text.split_inclusive('\n').map(|line| match excess(line) {
        Some(at) => format!("{}\\{}", &line[..at], &line[at..]),
        None => line.to_owned(),
    });
    Cow::Owned(lines.collect())
}

/// Returns the offset of the sign in `line` that exceeds [`NESTED_MAX`] quotes and lists.
fn excess(line: &str) -> Option<usize> {
    let ends_marker = |at: usize| line[at..].chars().next().is_none_or(char::is_whitespace);
    let mut at = 0;
    for _ in 0..=NESTED_MAX {
        at = line.len() - line[at..].trim_start_matches([' ', '\t']).len();
        let rest = line[at..].trim_start_matches(|char: char| char.is_ascii_digit());
        let is_number = rest.len() < line.len() - at;
        at = line.len() - rest.len();
        match rest.chars().next()? {
            '>' if !is_number => {}
            '-' | '+' | '*' if !is_number && ends_marker(at + 1) => {}
            '.' | ')' if is_number && ends_marker(at + 1) => {}
            _ => return None,
        }
        at += 1;
    }
    Some(at - 1)
}

struct MarkdownReader<'a> {
    source: &'a str,
    keeps_link: &'a dyn Fn(&str, &str) -> bool,
    /// Positions of link definitions that were not reached yet, last first.
    definitions: Vec<Range<usize>>,
    /// Starts of the definitions that a link uses. The others are shown.
    used: BTreeSet<usize>,
    drafts: Vec<DocumentDraft>,
    open: Option<DocumentDraft>,
    depths: Depths,
    link: Option<OpenLink>,
    links: Vec<String>,
    table: Option<Table>,
    /// End of the part of a table row that was read.
    cells_end: usize,
    place: DraftPlace,
}

impl MarkdownReader<'_> {
    fn event(&mut self, event: Event<'_>, at: usize) {
        match event {
            Event::Start(tag) => self.start(tag, at),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.push(&text, at),
            Event::Html(html) | Event::InlineHtml(html) => self.html(&html, at),
            Event::Code(code) => {
                let style = Style { code: true, ..self.style() };
                self.flow(at).push(&code, style);
            }
            Event::SoftBreak | Event::HardBreak => self.line_end(at),
            Event::Rule => {
                self.begin(BlockKind::Text, at);
                self.push(RULE, at);
                self.close();
            }
            Event::TaskListMarker(done) => {
                let marker =
                    self.open.as_mut().map_or(&mut self.place.marker, |open| &mut open.marker);
                *marker = Some(Marker::Task { done });
            }
            // Not enabled in the options.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text, at)
            }
        }
    }

    /// Shows cells of a row beyond those of the head as text. The parser drops them.
    fn follow_row(&mut self, event: &Event<'_>, range: &Range<usize>) {
        match event {
            Event::Start(Tag::TableRow) => self.cells_end = range.start,
            Event::End(TagEnd::TableCell) => self.cells_end = self.cells_end.max(range.end),
            Event::End(TagEnd::TableRow) => {
                let rest = self.source.get(self.cells_end..range.end).unwrap_or_default();
                let row = self.table.as_mut().and_then(|table| table.rows.last_mut());
                let Some(row) = row else { return };
                let cells = rest.split('|').map(str::trim).filter(|cell| !cell.is_empty());
                row.extend(cells.map(|cell| {
                    let mut flow = Flow::default();
                    flow.push(cell, Style::default());
                    flow
                }));
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>, at: usize) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin(BlockKind::Text, at),
            Tag::Heading { level, .. } => self.begin(BlockKind::Heading(number(level)), at),
            Tag::CodeBlock(kind) => self.begin(BlockKind::Code { language: language(&kind) }, at),
            Tag::BlockQuote(_) => {
                self.close();
                self.place.open_quote();
            }
            Tag::List(first) => {
                self.close();
                self.place.lists.push(first);
            }
            Tag::Item => {
                self.close();
                self.place.open_item();
            }
            Tag::Table(alignments) => {
                self.begin(BlockKind::Text, at);
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::Emphasis => self.depths.italic += 1,
            Tag::Strong => self.depths.bold += 1,
            Tag::Strikethrough => self.depths.strike += 1,
            Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. } => {
                self.open_link(link_type, &dest_url, at);
            }
            Tag::TableCell
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::Heading(_) | TagEnd::CodeBlock => {
                self.close();
            }
            TagEnd::BlockQuote(_) => {
                self.close();
                self.place.quote_depth -= 1;
            }
            TagEnd::List(_) => {
                self.close();
                self.place.lists.pop();
            }
            TagEnd::Item => {
                self.close();
                self.place.close_item();
            }
            TagEnd::TableCell => {
                if let (Some(table), Some(open)) = (&mut self.table, &mut self.open)
                    && let Some(row) = table.rows.last_mut()
                {
                    row.push(std::mem::take(&mut open.flow));
                }
            }
            TagEnd::Table => self.close_table(),
            TagEnd::Emphasis => self.depths.italic -= 1,
            TagEnd::Strong => self.depths.bold -= 1,
            TagEnd::Strikethrough => self.depths.strike -= 1,
            TagEnd::Link | TagEnd::Image => self.close_link(),
            TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn style(&self) -> Style {
        let Depths { bold, italic, strike } = self.depths;
        let link = self.link.as_ref().filter(|link| !link.bare).map(|_| self.links.len());
        Style { bold: bold > 0, italic: italic > 0, strike: strike > 0, code: false, link }
    }

    /// Returns the text under construction. Begins a leaf at `at` if there is none.
    fn flow(&mut self, at: usize) -> &mut Flow {
        if self.open.is_none() {
            self.begin(BlockKind::Text, at);
        }
        &mut self.open.get_or_insert_with(|| DocumentDraft::new(BlockKind::Text)).flow
    }

    fn push(&mut self, text: &str, at: usize) {
        let style = self.style();
        self.flow(at).push(text, style);
    }

    fn line_end(&mut self, at: usize) {
        let is_heading =
            matches!(&self.open, Some(DocumentDraft { kind: BlockKind::Heading(_), .. }));
        self.push(if is_heading || self.link.is_some() { " " } else { "\n" }, at);
    }

    fn html(&mut self, html: &str, at: usize) {
        let name = html.trim().trim_start_matches('<').trim_end_matches(['>', '/', ' ']);
        match name {
            _ if !name.eq_ignore_ascii_case("br") || !html.trim().ends_with('>') => {
                self.push(html, at);
            }
            _ => self.line_end(at),
        }
    }

    /// Begins a leaf at offset `at` of the source.
    fn begin(&mut self, kind: BlockKind, at: usize) {
        self.close();
        while let Some(span) = self.definitions.pop_if(|span| span.start < at) {
            self.define(span);
        }
        self.open = Some(DocumentDraft {
            quote: self.place.quote(),
            indent: self.place.indent.min(INDENT_MAX),
            marker: self.place.marker.take(),
            loose: is_after_blank_line(self.source, at),
            ..DocumentDraft::new(kind)
        });
    }

    fn define(&mut self, span: Range<usize>) {
        let loose = is_after_blank_line(self.source, span.start);
        let mut new = DocumentDraft {
            loose,
            definition: Some(span.start),
            ..DocumentDraft::new(BlockKind::Text)
        };
        new.flow.push(self.source[span].trim(), Style::default());
        self.drafts.push(new);
    }

    fn close(&mut self) {
        match self.open.take().map(DocumentDraft::trimmed) {
            Some(Ok(draft)) => self.drafts.push(draft),
            // The item's text follows.
            Some(Err(Some(marker))) => self.place.marker = Some(marker),
            Some(Err(None)) | None => {}
        }
    }

    fn open_link(&mut self, kind: LinkType, url: &str, at: usize) {
        if let Some(outer) = &mut self.link {
            outer.depth += 1;
            return;
        }
        let around = self.style();
        let start = self.flow(at).text.len();
        let bare = matches!(kind, LinkType::Autolink | LinkType::Email);
        self.link = Some(OpenLink { url: encoded(url), start, depth: 1, bare, around });
    }

    fn close_link(&mut self) {
        let Some(mut link) = self.link.take() else { return };
        link.depth -= 1;
        if link.depth > 0 {
            self.link = Some(link);
            return;
        }
        let Some(open) = self.open.as_mut().filter(|_| !link.bare) else { return };
        let flow = &mut open.flow;
        let label = &flow.text[link.start..];
        let is_blank = label.trim().is_empty();
        let is_address = label == link.url || link.url.strip_prefix("mailto:") == Some(label);
        let is_link = !is_blank && !is_address && (self.keeps_link)(label, &link.url);
        let id = self.links.len();
        let first = flow.runs.partition_point(|run| run.range.end <= link.start);
        if is_link {
            let first_style = flow.runs[first].style;
            let is_uniform = flow.runs[first..].iter().all(|run| run.style == first_style);
            let style =
                if is_uniform { first_style } else { Style { link: Some(id), ..link.around } };
            flow.runs.truncate(first);
            flow.runs.push(StyledRun { range: link.start..flow.text.len(), style });
            self.links.push(link.url);
            return;
        }
        flow.runs[first..].iter_mut().for_each(|run| run.style.link = None);
        match (is_blank, is_address || link.url.is_empty()) {
            (_, true) => {}
            (true, _) => flow.push(&link.url, link.around),
            (false, false) => flow.push(&format!(" ({})", link.url), link.around),
        }
    }

    fn close_table(&mut self) {
        let (Some(table), Some(open)) = (self.table.take(), self.open.take()) else { return };
        let blocks = table.lay_out();
        for (at, block) in blocks.into_iter().enumerate() {
            let width = block.marker.map_or(0, Marker::width);
            self.drafts.push(DocumentDraft {
                flow: block.flow,
                kind: block.kind,
                quote: open.quote,
                indent: (open.indent + width).min(INDENT_MAX),
                marker: block.marker.or(open.marker.filter(|_| at == 0)),
                loose: open.loose && at == 0,
                definition: None,
            });
        }
    }

    fn finish(mut self) -> Document {
        self.close();
        while let Some(span) = self.definitions.pop() {
            self.define(span);
        }
        let mut document = Document { links: self.links, ..Document::default() };
        let used = self.used;
        let unused = |draft: &DocumentDraft| draft.definition.is_none_or(|at| !used.contains(&at));
        for draft in self.drafts.into_iter().filter(unused) {
            if !document.text.is_empty() {
                document.text.push_str(if draft.loose { "\n\n" } else { "\n" });
            }
            let base = document.text.len();
            document.text.push_str(&draft.flow.text);
            document.runs.extend(draft.flow.runs.into_iter().map(|run| StyledRun {
                range: base + run.range.start..base + run.range.end,
                style: run.style,
            }));
            let DocumentDraft { kind, quote, indent, marker, loose, .. } = draft;
            let range = base..document.text.len();
            document.leaves.push(Leaf { range, kind, quote, indent, marker, loose });
        }
        document
    }
}

/// Returns true if the line before that of `at` is empty, except for quote signs.
fn is_after_blank_line(source: &str, at: usize) -> bool {
    let line = source[..at].rfind('\n').unwrap_or(0);
    let before = &source[..line];
    let before = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
    line > 0 && before.chars().all(|char| matches!(char, ' ' | '\t' | '>'))
}

fn number(level: HeadingLevel) -> u8 {
    level as u8
}

/// Returns the language that a fence names, if it is a valid name.
fn language(kind: &CodeBlockKind<'_>) -> String {
    let CodeBlockKind::Fenced(info) = kind else { return String::new() };
    let info: &CowStr<'_> = info;
    let is_name = |char: char| char.is_ascii_alphanumeric() || "_+-.#".contains(char);
    let end = info.find(|char| !is_name(char)).unwrap_or(info.len());
    if end > LANGUAGE_MAX { String::new() } else { info[..end].to_owned() }
}

/// Returns `url` without characters that would end it early in some markup.
fn encoded(url: &str) -> String {
    let mut out = String::with_capacity(url.len());
    for char in url.trim().chars() {
        match char {
            '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' | '\0'..=' ' | '\x7f' => {
                out.push_str(&format!("%{:02X}", u32::from(char)));
            }
            _ if char.is_control() || char.is_whitespace() => {}
            _ => out.push(char),
        }
    }
    out
}
