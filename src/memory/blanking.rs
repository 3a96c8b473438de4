//! Files with words that somebody wants forgotten. Lines of the memory and of the notes go; other files are the person's
//! own to change, and are only named.

use super::is_memory;
use super::recall::files;
use crate::store::ForgottenWords;
use crate::workspace::{FileChange, FileError, FileScope, Hash, Workspace, WorkspacePath};

/// Files with the words in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesWithWords {
    /// MEMORY.md and the notes.
    pub memory: Vec<WorkspacePath>,
    pub others: Vec<WorkspacePath>,
}

/// Returns the files of text with the words in them that a person can reach.
pub fn find(workspace: &Workspace, scope: &FileScope, words: &ForgottenWords) -> FilesWithWords {
    let mut found = FilesWithWords::default();
    for path in files::paths(workspace, scope) {
        let text = workspace.open_for(&path, scope).and_then(|file| file.read_text());
        if text.is_ok_and(|text| words.are_in(&text)) {
            let is_of_memory = is_memory(&path);
            let list = if is_of_memory { &mut found.memory } else { &mut found.others };
            list.push(path);
        }
    }
    found
}

/// Removes the lines of a file that have the words in them. Nothing of it can be undone.
pub fn remove_lines(
    workspace: &Workspace,
    path: &WorkspacePath,
    words: &ForgottenWords,
) -> Result<(), FileError> {
    let path = workspace.resolve(path)?;
    let Some(text) = workspace.read_text(&path)? else { return Ok(()) };
    let lines = text.split_inclusive('\n').filter(|line| !words.are_in(line));
    let mut left: String = lines.collect();
    // They stand across lines.
    if words.are_in(&left) {
        left.clear();
    }
    if left == text {
        return Ok(());
    }
    let before = Hash::of(text.as_bytes());
    workspace.apply(&FileChange::new(path, Some(before), left.into_bytes()))
}
