//! Files with words that somebody wants forgotten. Lines of the memory and the notes are removed; other files are only
//! listed, because the person should change them.

use super::attachments::{AttachmentFile, SoughtFiles};
use super::is_memory;
use super::recall::files;
use crate::store::ForgottenWords;
use crate::workspace::{FileChange, FileError, FileScope, Hash, Workspace, WorkspacePath};

/// Number of bytes of a file that are searched at a time.
const PAGE_BYTES: u64 = 256 * 1024;

/// Overlap of two pages in bytes, so that no words are cut in two. Longer than any words.
const OVERLAP_BYTES: u64 = 8 * 1024;

/// Number of first bytes that contain a zero if the file is not text.
const HEAD_BYTES: usize = 8 * 1024;

/// Files that contain the words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesWithWords {
    /// MEMORY.md and the notes.
    pub memory: Vec<WorkspacePath>,
    pub others: Vec<WorkspacePath>,
}

/// Returns the text files that contain the words and that a person can access.
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

/// Returns the received files whose record contains the words, or which are text files that contain them.
pub fn sent_with_words(
    workspace: &Workspace,
    sought: SoughtFiles,
    words: &ForgottenWords,
) -> Vec<AttachmentFile> {
    let SoughtFiles { mut found, unread } = sought;
    found.extend(unread.into_iter().filter(|file| has_words(workspace, &file.path, words)));
    found
}

/// Returns true if a text file contains the words. False for a file that cannot be read.
fn has_words(workspace: &Workspace, path: &WorkspacePath, words: &ForgottenWords) -> bool {
    let mut start = 0;
    loop {
        let file = workspace.open_without_links(path);
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

/// Removes the lines of a file that contain the words. This cannot be undone.
pub fn remove_lines(
    workspace: &Workspace,
    path: &WorkspacePath,
    words: &ForgottenWords,
) -> Result<(), FileError> {
    let path = workspace.resolve(path)?;
    let Some(text) = workspace.read_text(&path)? else { return Ok(()) };
    let lines = text.split_inclusive('\n').filter(|line| !words.are_in(line));
    let mut remaining_text: String = lines.collect();
    // The words may span lines.
    if words.are_in(&remaining_text) {
        remaining_text.clear();
    }
    if remaining_text == text {
        return Ok(());
    }
    let before = Hash::of(text.as_bytes());
    workspace.apply(&FileChange::new(path, Some(before), remaining_text.into_bytes()))
}
