//! Files with words that somebody wants forgotten. Lines of the memory and of the notes go; other files are the person's
//! own to change, and are only named.

use super::attachments::{AttachmentFile, SoughtFiles};
use super::is_memory;
use super::recall::files;
use crate::store::ForgottenWords;
use crate::workspace::{FileChange, FileError, FileScope, Hash, Workspace, WorkspacePath};

/// Bytes of a file that are looked through at a time.
const PAGE_BYTES: u64 = 256 * 1024;

/// Bytes of a page that the next one begins with, so that no words are cut in two: longer than any.
const OVERLAP_BYTES: u64 = 8 * 1024;

/// Bytes in which a file that is no text has a zero.
const HEAD_BYTES: usize = 8 * 1024;

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

/// Returns the files that were sent and have the words, by their record or as a file of text of any size.
pub fn sent_with_words(
    workspace: &Workspace,
    sought: SoughtFiles,
    words: &ForgottenWords,
) -> Vec<AttachmentFile> {
    let SoughtFiles { mut found, unread } = sought;
    found.extend(unread.into_iter().filter(|file| has_words(workspace, &file.path, words)));
    found
}

/// Returns true if a file is of text and has the words. False for one that cannot be read.
fn has_words(workspace: &Workspace, path: &WorkspacePath, words: &ForgottenWords) -> bool {
    let mut start = 0;
    loop {
        let file = workspace.open_exactly(path);
        let Ok(page) = file.and_then(|file| file.read_page(start, PAGE_BYTES)) else {
            return false;
        };
        if start == 0 && page.bytes.iter().take(HEAD_BYTES).any(|byte| *byte == 0) {
            return false;
        }
        let end = start + page.bytes.len() as u64;
        if words.are_in(&String::from_utf8_lossy(&page.bytes)) {
            return true;
        }
        if end >= page.size || page.bytes.is_empty() {
            return false;
        }
        start = end.saturating_sub(OVERLAP_BYTES).max(start + 1);
    }
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
