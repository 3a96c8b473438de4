//! Files and folders that could not be read when a backup was made. Not here: links and special files, which no backup has.

use std::io;
use std::path::Path;

use crate::short_text::{one_line, shortened};

/// Entries that are named; the others are counted.
const NAMED_MAX: usize = 20;

/// Characters of a path that are shown.
const PATH_CHARS_MAX: usize = 200;

/// The files and folders of a home that a backup is without, or of which it has only the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub count: u64,
    /// The first of them.
    pub named: Vec<UnreadEntry>,
}

/// A file or folder that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadEntry {
    /// Within the home, on one line.
    pub path: String,
    pub reason: String,
}

impl LeftOut {
    pub(super) fn add(&mut self, path: &Path, error: &io::Error) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            let path = path.to_string_lossy().replace(char::is_control, " ");
            let path = shortened(&one_line(&path), PATH_CHARS_MAX);
            self.named.push(UnreadEntry { path, reason: error.to_string() });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a line for each that is named, and one for the others.
    pub fn lines(&self) -> Vec<String> {
        let named = self.named.iter().map(|it| format!("{}: {}", it.path, it.reason));
        let more = self.count.saturating_sub(self.named.len() as u64);
        let more = (more > 0).then(|| format!("and {more} more"));
        named.chain(more).collect()
    }
}
