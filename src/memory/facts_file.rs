//! `memory/FACTS.md`: the facts about a person as a file. The program generates it from the store, and recognizes its own
//! text. Changes by others apply only after the person has approved them, because the author of a change in a file is
//! unknown.

use super::facts::{FACT_CHARS_MAX, Fact, FactId};
use super::is_memory;
use crate::short_text::one_line;
use crate::workspace::{FileChange, FileError, FileScope, Hash, Workspace, WorkspacePath};

/// Its path in a workspace.
const FACTS_FILE: &str = "memory/FACTS.md";

/// The beginning and the end of the file's last line: it has the numbers of the facts, and a digest of them and of all
/// lines before.
const MADE_BEGINS: &str = "<!-- as made: ";
const MADE_ENDS: &str = " -->";

/// Maximum number of changes of the file that are shown at a time.
pub const EDITS_MAX: usize = 30;

/// A change that somebody made in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactEdit {
    Added(String),
    Changed { id: FactId, from: String, to: String },
    Removed { id: FactId, text: String },
}

/// Returns the text of the file with the last line by which the program recognizes it, for the facts it shows.
pub fn marked(text: &str, shown: &[FactId]) -> String {
    let numbers: Vec<_> = shown.iter().map(|id| id.0.to_string()).collect();
    marked_with(text, &numbers.join(","))
}

fn marked_with(text: &str, numbers: &str) -> String {
    let digest = Hash::of(format!("{numbers}\n{text}").as_bytes());
    format!("{text}\n{MADE_BEGINS}{numbers} {digest}{MADE_ENDS}\n")
}

/// Returns true if the program generated the text, and nobody has changed it.
pub fn is_as_made(text: &str) -> bool {
    let made = text.rsplit_once(MADE_BEGINS);
    let made = made.and_then(|(before, mark)| {
        Some((before.strip_suffix('\n')?, mark.rsplit_once(' ')?.0.rsplit_once(' ')?.0))
    });
    made.is_some_and(|(before, numbers)| marked_with(before, numbers) == text)
}

/// Returns the facts that a file showed when the program generated it. Empty if the last line was deleted.
fn shown_before(text: &str) -> Vec<FactId> {
    let mark = text.rsplit_once(MADE_BEGINS).and_then(|(_, mark)| mark.split_once(' '));
    let numbers = mark.map(|(numbers, _)| numbers).unwrap_or_default();
    numbers.split(',').filter_map(|number| number.parse().ok()).map(FactId).collect()
}

/// Returns the changes of a text relative to the facts that the file should show: new, changed and missing lines. Empty
/// for a text that the program generated. Skips lines that are too long for a fact. Facts that the file has never
/// shown do not count as missing.
pub fn edits(text: &str, shown: &[Fact]) -> Vec<FactEdit> {
    if is_as_made(text) {
        return Vec::new();
    }
    let lines: Vec<_> =
        text.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(entry).collect();
    let shown_earlier = shown_before(text);
    let mut edits = Vec::new();
    for fact in shown {
        let line = lines.iter().find(|(id, _)| *id == Some(fact.id));
        match line {
            Some((_, to)) if *to == one_line(&fact.text) || !is_fact(to) => {}
            Some((_, to)) => {
                let (from, to) = (fact.text.clone(), to.clone());
                edits.push(FactEdit::Changed { id: fact.id, from, to });
            }
            None if lines.iter().any(|(_, text)| *text == one_line(&fact.text)) => {}
            None if !shown_earlier.contains(&fact.id) => {}
            None => edits.push(FactEdit::Removed { id: fact.id, text: fact.text.clone() }),
        }
    }
    let is_shown = |id: &Option<FactId>, text: &String| {
        shown.iter().any(|fact| Some(fact.id) == *id || one_line(&fact.text) == *text)
    };
    for (id, text) in &lines {
        let is_new = !is_shown(id, text) && is_fact(text);
        let edit = FactEdit::Added(text.clone());
        if is_new && !edits.contains(&edit) {
            edits.push(edit);
        }
    }
    edits
}

/// Returns the number and the text of a line of the file: `Ada is seven (#3, 2026-05-01)`.
fn entry(line: &str) -> (Option<FactId>, String) {
    let numbered = || {
        let (text, rest) = line.rsplit_once(" (#")?;
        let (number, _) = rest.strip_suffix(')')?.split_once(", ")?;
        Some((Some(FactId(number.parse().ok()?)), one_line(text)))
    };
    numbered().unwrap_or_else(|| (None, one_line(line)))
}

fn is_fact(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= FACT_CHARS_MAX
}

/// Returns the path of the file in a person's tree.
pub fn path(scope: &FileScope) -> WorkspacePath {
    scope.path(&FACTS_FILE.parse().expect("it is a path"))
}

/// Returns true if a path is the facts file of any person.
pub fn is_facts_file(path: &WorkspacePath) -> bool {
    let path_text = path.as_str();
    let at = path_text.len().saturating_sub(FACTS_FILE.len());
    let (before, end) = path_text.split_at_checked(at).unwrap_or(("", path_text));
    let is_whole = before.is_empty() || before.ends_with('/');
    is_whole && end.eq_ignore_ascii_case(FACTS_FILE) && is_memory(path)
}

/// Returns the text of the file. None if it does not exist. Does not follow links, which could lead to instructions.
pub fn read(workspace: &Workspace, scope: &FileScope) -> Result<Option<String>, FileError> {
    match workspace.open_without_links(&path(scope)) {
        Ok(file) => file.read_text().map(Some),
        Err(FileError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file, if its text is still `before`.
pub fn replace(
    workspace: &Workspace,
    scope: &FileScope,
    before: Option<&str>,
    text: String,
) -> Result<(), FileError> {
    let before = before.map(|before| Hash::of(before.as_bytes()));
    workspace.apply(&FileChange::new(path(scope), before, text.into_bytes()))
}
