//! `memory/FACTS.md`: the facts about a person as a file to read. The program makes it from its store, and nothing reads
//! it back: what is written there by hand or by a command is overwritten.

use super::is_memory;
use crate::workspace::{FileChange, FileError, FileScope, Hash, Workspace, WorkspacePath};

/// Its path in a workspace.
const FACTS_FILE: &str = "memory/FACTS.md";

/// Returns its path in the tree of a person in private.
pub fn path(scope: &FileScope) -> WorkspacePath {
    scope.path(&FACTS_FILE.parse().expect("it is a path"))
}

/// Returns true for the file of any person.
pub fn is_facts_file(path: &WorkspacePath) -> bool {
    let path_text = path.as_str();
    let at = path_text.len().saturating_sub(FACTS_FILE.len());
    let (before, end) = path_text.split_at_checked(at).unwrap_or(("", path_text));
    let is_whole = before.is_empty() || before.ends_with('/');
    is_whole && end.eq_ignore_ascii_case(FACTS_FILE) && is_memory(path)
}

/// Returns its text; none if it is not there. Links are not followed: one could lead to instructions.
pub fn read(workspace: &Workspace, scope: &FileScope) -> Result<Option<String>, FileError> {
    match workspace.open_exactly(&path(scope)) {
        Ok(file) => file.read_text().map(Some),
        Err(FileError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces it, if it still has the text `before`.
pub fn replace(
    workspace: &Workspace,
    scope: &FileScope,
    before: Option<&str>,
    text: String,
) -> Result<(), FileError> {
    let before = before.map(|before| Hash::of(before.as_bytes()));
    workspace.apply(&FileChange::new(path(scope), before, text.into_bytes()))
}
