//! The sections of a Markdown text. A CommonMark parser finds the headings, so a `#` in a code block is not one. A
//! section is changed in place: all other bytes stay as they are. Pure.

use std::fmt::Write as _;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use crate::short_text::one_line;

/// Separator of the headings of an address: `# House > ## Garden`.
const SEPARATOR: &str = " > ";

/// Maximum number of headings in an explanation.
const NAMED_MAX: usize = 20;

/// A heading outside of lists and quotes, with the text below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkdownSection {
    /// 1 to 6.
    pub level: u8,
    /// As written, on one line, without `#`.
    pub title: String,
    /// The offset of the heading's line.
    pub start: usize,
    /// The offset after the heading.
    pub body: usize,
    /// The offset of the next heading of any level, or of the end.
    pub end: usize,
}

/// The reason why a section is not found or not changed. An explanation for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SectionError {
    #[error("there is no heading `{wanted}`.{present}")]
    Missing { wanted: String, present: String },
    #[error(
        "`{wanted}` stands for several headings:{found} Name the headings above it too, such as \
         `# House > ## Garden`; use edit_file if they are the same"
    )]
    Ambiguous { wanted: String, found: String },
    #[error("`{0}` is no heading. Give it as it stands in the file, such as `## Garden`")]
    NoHeading(String),
    #[error("a heading below another has more `#` than that one")]
    Level,
    #[error("a heading in `content` is not below `{0}`. Write each section with a call of its own")]
    ContentHeadings(String),
    #[error(
        "with this content other headings would be lost, or not be headings: a code block or comment \
         may not be closed"
    )]
    Swallows,
}

/// One heading of an address.
struct HeadingAddress<'a> {
    /// None if it was given without `#`.
    level: Option<u8>,
    title: &'a str,
}

impl MarkdownSection {
    fn heading(&self) -> String {
        let marks = "#".repeat(usize::from(self.level));
        format!("{marks} {}", self.title)
    }

    fn matches(&self, address: &HeadingAddress<'_>) -> bool {
        address.level.is_none_or(|level| level == self.level) && address.title == self.title
    }
}

/// Returns the sections of a text, in order.
pub fn sections(text: &str) -> Vec<MarkdownSection> {
    // Without this option, front matter would be a heading: a line of text above `---`.
    let parser = Parser::new_ext(text, Options::ENABLE_YAML_STYLE_METADATA_BLOCKS);
    let (mut sections, mut depth) = (Vec::<MarkdownSection>::new(), 0_usize);
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
                let heading = text[range.clone()].trim_end();
                let end = range.start + heading.len();
                let body = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
                if let Some(former) = sections.last_mut() {
                    former.end = start;
                }
                let (level, title) = (level_number(level), title(heading));
                sections.push(MarkdownSection { level, title, start, body, end: text.len() });
                depth += 1;
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    sections
}

fn level_number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// Returns the title of a heading: one line with `#`, or lines above a line of `=` or `-`.
fn title(heading: &str) -> String {
    match heading.rsplit_once('\n') {
        Some((title, _)) => one_line(title),
        None => {
            let title = heading.trim_start_matches('#').trim();
            let open = title.trim_end_matches('#');
            match open.is_empty() || open.ends_with([' ', '\t']) {
                true => open.trim_end().to_owned(),
                false => title.to_owned(),
            }
        }
    }
}

/// Returns the headings, one a line, with the length of the text below each, in characters.
pub fn outline(text: &str) -> String {
    let mut outline = String::new();
    for section in sections(text) {
        let indent = "  ".repeat(usize::from(section.level - 1));
        let length = text[section.body..section.end].trim().chars().count();
        let _ = writeln!(outline, "{indent}{} ({length})", section.heading());
    }
    outline
}

/// Returns a section and the sections below it, as they stand in the text.
pub fn read<'a>(text: &'a str, address: &str) -> Result<&'a str, SectionError> {
    let sections = sections(text);
    let found = find(&sections, address)?;
    Ok(&text[sections[found].start..whole_end(&sections, found, text)])
}

/// Returns the text with `content` below a heading, down to the next heading. A missing heading is added if its
/// address has the `#`: at the end of the section above it, or of the text. `content` may have headings below that
/// one. Line ends become those of the text.
///
/// # Errors
/// Another heading would be lost, or not be a heading any more.
pub fn write(text: &str, address: &str, content: &str) -> Result<String, SectionError> {
    let crlf = text.matches("\r\n").count();
    let is_crlf = crlf > 0 && crlf == text.matches('\n').count();
    let line_end = if is_crlf { "\r\n" } else { "\n" };
    let content = content.replace("\r\n", "\n");
    let before = sections(text);
    let (at, written) = match find(&before, address) {
        Ok(found) => {
            let content = without_heading(&content, &before[found]);
            (found, replaced(text, &before[found], &with_line_end(content, line_end), line_end))
        }
        Err(SectionError::Missing { wanted, present }) => {
            let (above, new) =
                addition(&before, address)?.ok_or(SectionError::Missing { wanted, present })?;
            let content = without_heading(&content, &new);
            let (at, offset) = match above {
                Some(above) => {
                    let at = place_below(&before, above, new.level);
                    (at, before.get(at).map_or(text.len(), |next| next.start))
                }
                None => (before.len(), text.len()),
            };
            let block = format!("{}\n\n{content}", new.heading());
            let added = inserted(text, offset, &with_line_end(&block, line_end), line_end);
            return check(&before, at, Some(&new), added);
        }
        Err(error) => return Err(error),
    };
    check(&before, at, None, written)
}

/// Returns the section that an address names.
fn find(sections: &[MarkdownSection], address: &str) -> Result<usize, SectionError> {
    let whole = parse_heading(address)?;
    let by_title = |section: &MarkdownSection| section.matches(&whole);
    let mut found: Vec<_> = (0..sections.len()).filter(|at| by_title(&sections[*at])).collect();
    if found.is_empty() && address.contains(SEPARATOR) {
        let path = parse_path(address)?;
        found = (0..sections.len()).filter(|at| is_at(sections, *at, &path)).collect();
    }
    match found.as_slice() {
        [found] => Ok(*found),
        [] => Err(SectionError::Missing {
            wanted: address.trim().to_owned(),
            present: match sections.is_empty() {
                true => " The file has no headings".to_owned(),
                false => format!(" There are:{}", list_headings(sections, 0..sections.len())),
            },
        }),
        several => Err(SectionError::Ambiguous {
            wanted: address.trim().to_owned(),
            found: list_headings(sections, several.iter().copied()),
        }),
    }
}

fn list_headings(sections: &[MarkdownSection], which: impl Iterator<Item = usize>) -> String {
    let mut list = String::new();
    for (count, at) in which.enumerate() {
        if count == NAMED_MAX {
            list.push_str("\n…");
            break;
        }
        let mut path = vec![sections[at].heading()];
        let mut below = at;
        while let Some(above) = parent(sections, below) {
            path.insert(0, sections[above].heading());
            below = above;
        }
        let _ = write!(list, "\n{}", path.join(SEPARATOR));
    }
    list + "\n"
}

fn parse_path(address: &str) -> Result<Vec<HeadingAddress<'_>>, SectionError> {
    address.split(SEPARATOR).map(parse_heading).collect()
}

/// Parses `## Garden` or `Garden`.
fn parse_heading(heading: &str) -> Result<HeadingAddress<'_>, SectionError> {
    let heading = heading.trim();
    let rest = heading.trim_start_matches('#');
    let marks = heading.len() - rest.len();
    let title = rest.trim();
    if title.is_empty() || title.contains(['\n', '\r']) {
        return Err(SectionError::NoHeading(heading.to_owned()));
    }
    match marks {
        1..=6 if rest.starts_with([' ', '\t']) => {
            Ok(HeadingAddress { level: u8::try_from(marks).ok(), title })
        }
        // A title that begins with `#`, such as `#1`.
        _ => Ok(HeadingAddress { level: None, title: heading }),
    }
}

/// Returns true if the section matches the end of the path, and the sections above it match the rest.
fn is_at(sections: &[MarkdownSection], at: usize, path: &[HeadingAddress<'_>]) -> bool {
    let mut at = Some(at);
    path.iter().rev().all(|address| {
        let is_here = at.is_some_and(|at| sections[at].matches(address));
        at = at.and_then(|at| parent(sections, at));
        is_here
    })
}

fn parent(sections: &[MarkdownSection], at: usize) -> Option<usize> {
    (0..at).rev().find(|above| sections[*above].level < sections[at].level)
}

/// Returns the first section after `at` that is not below it.
fn next_outside(sections: &[MarkdownSection], at: usize) -> usize {
    let below = sections[at + 1..].iter().take_while(|it| it.level > sections[at].level);
    at + 1 + below.count()
}

/// Returns the position of a new section directly below `above`: before the first section there with a heading of a
/// higher rank, or after all.
fn place_below(sections: &[MarkdownSection], above: usize, level: u8) -> usize {
    let end = next_outside(sections, above);
    (above + 1..end).find(|at| sections[*at].level < level).unwrap_or(end)
}

/// Returns the offset at which a section ends, with all sections below it.
fn whole_end(sections: &[MarkdownSection], at: usize, text: &str) -> usize {
    sections.get(next_outside(sections, at)).map_or(text.len(), |next| next.start)
}

/// Returns the new section that an address stands for, and the section above it. None if its level is not given.
fn addition(
    sections: &[MarkdownSection],
    address: &str,
) -> Result<Option<(Option<usize>, MarkdownSection)>, SectionError> {
    let (above, own) = match address.rsplit_once(SEPARATOR) {
        Some((above, own)) => (Some(find(sections, above)?), parse_heading(own)?),
        None => (None, parse_heading(address)?),
    };
    let Some(level) = own.level else { return Ok(None) };
    if above.is_some_and(|above| sections[above].level >= level) {
        return Err(SectionError::Level);
    }
    let title = own.title.to_owned();
    Ok(Some((above, MarkdownSection { level, title, start: 0, body: 0, end: 0 })))
}

/// Returns `content` without the heading of its own section, which models like to repeat.
fn without_heading<'a>(content: &'a str, section: &MarkdownSection) -> &'a str {
    let content = trim_empty_lines(content);
    match sections(content).first() {
        Some(first)
            if first.start == 0 && first.level == section.level && first.title == section.title =>
        {
            trim_empty_lines(&content[first.body..])
        }
        _ => content,
    }
}

/// Returns the text without empty lines around it. The indentation of the first line stays.
fn trim_empty_lines(text: &str) -> &str {
    let text = text.trim_end();
    let indent = text.len() - text.trim_start().len();
    let first = text[..indent].rfind('\n').map_or(0, |at| at + 1);
    &text[first..]
}

fn with_line_end(text: &str, line_end: &str) -> String {
    text.replace('\n', line_end)
}

/// Returns the text with `content` below a heading. The empty lines around the former content stay.
fn replaced(text: &str, section: &MarkdownSection, content: &str, line_end: &str) -> String {
    let old = &text[section.body..section.end];
    let is_last = section.end == text.len();
    let kept = trim_empty_lines(old);
    let (mut gap, mut rest) = ("", "");
    if !kept.is_empty() {
        let at = old.find(kept).unwrap_or_default();
        (gap, rest) = (&old[..at], &old[at + kept.len()..]);
    }
    let mut out = text[..section.body].to_owned();
    if !out.ends_with('\n') {
        out.push_str(line_end);
    }
    if kept.is_empty() {
        gap = line_end;
    }
    if !content.is_empty() {
        out.push_str(gap);
        out.push_str(content);
    }
    // The next heading may be one with `=` below, which needs an empty line before it.
    let is_apart = rest.matches('\n').count() > 1;
    match (is_last, is_apart) {
        (_, true) => out.push_str(rest),
        (true, false) if kept.is_empty() => out.push_str(line_end),
        (true, false) => out.push_str(rest),
        (false, false) => out.push_str(&line_end.repeat(2)),
    }
    out + &text[section.end..]
}

/// Returns the text with a block of lines inserted at an offset where a line begins.
fn inserted(text: &str, offset: usize, block: &str, line_end: &str) -> String {
    let (before, after) = text.split_at(offset);
    let mut out = before.to_owned();
    if !out.is_empty() && !out.ends_with('\n') {
        out.push_str(line_end);
    }
    let is_apart = out.is_empty() || out.ends_with("\n\n") || out.ends_with("\n\r\n");
    if !is_apart {
        out.push_str(line_end);
    }
    out.push_str(block.trim_end());
    out.push_str(line_end);
    if !after.is_empty() {
        out.push_str(line_end);
    }
    out + after
}

/// Returns `written` if its headings are the former ones, the new one, and below that only those of the content.
fn check(
    before: &[MarkdownSection],
    at: usize,
    new: Option<&MarkdownSection>,
    written: String,
) -> Result<String, SectionError> {
    let after = sections(&written);
    let same = |one: &MarkdownSection, other: &MarkdownSection| {
        one.level == other.level && one.title == other.title
    };
    let (own, kept) = match new {
        Some(new) => (new, &before[at..]),
        None => (&before[at], &before[at + 1..]),
    };
    let (first, rest) = (&before[..at], kept);
    let Some(more) = after.len().checked_sub(first.len() + 1 + rest.len()) else {
        return Err(SectionError::Swallows);
    };
    let all = |one: &[MarkdownSection], other: &[MarkdownSection]| {
        one.iter().zip(other).all(|(one, other)| same(one, other))
    };
    let stay = all(first, &after) && same(own, &after[at]) && all(rest, &after[at + 1 + more..]);
    if !stay {
        return Err(SectionError::Swallows);
    }
    let added = &after[at + 1..at + 1 + more];
    let has_below = new.is_none() && rest.first().is_some_and(|next| next.level > own.level);
    if added.iter().any(|it| it.level <= own.level) || has_below && more > 0 {
        return Err(SectionError::ContentHeadings(own.heading()));
    }
    Ok(written)
}
