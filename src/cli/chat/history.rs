//! The lines that were typed at this home's terminals, in a file that only its owner can read: a JSON string a line,
//! the oldest first.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The file's name within the home.
const FILE: &str = "terminal-history";

/// Entries that are offered again.
pub(super) const ENTRIES_MAX: usize = 1_000;

/// A longer message was pasted, and nobody looks for it with an arrow key.
const ENTRY_BYTES_MAX: usize = 4_096;

/// Of the file. It is shortened at the start of each terminal, and a terminal does not add this much.
const FILE_BYTES_MAX: u64 = 16_000_000;

pub(super) struct History {
    path: PathBuf,
    last: Option<String>,
}

impl History {
    /// Opens the history of a home, and returns its entries. A file that cannot be read counts as empty.
    pub(super) fn open(home: &Path) -> (Self, Vec<String>) {
        let path = home.join(FILE);
        let mut text = String::new();
        if let Ok(file) = fs::File::open(&path) {
            file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok();
        }
        let read: Vec<String> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let entries = read[read.len().saturating_sub(ENTRIES_MAX)..].to_vec();
        if read.len() > 2 * ENTRIES_MAX {
            rewrite(&path, &entries).ok();
        }
        (Self { path, last: entries.last().cloned() }, entries)
    }

    /// Keeps a line; returns false if it is not worth an entry. A history that cannot be written is not worth an
    /// error.
    pub(super) fn add(&mut self, text: &str) -> bool {
        let is_worth = !text.trim().is_empty()
            && text.len() <= ENTRY_BYTES_MAX
            && self.last.as_deref() != Some(text);
        if is_worth {
            self.last = Some(text.to_owned());
            append(&self.path, &[text.to_owned()], OpenOptions::new().append(true)).ok();
        }
        is_worth
    }
}

/// Replaces the file by one with these entries.
fn rewrite(path: &Path, entries: &[String]) -> io::Result<()> {
    let new = path.with_extension("new");
    append(&new, entries, OpenOptions::new().write(true).truncate(true))?;
    fs::rename(new, path)
}

fn append(path: &Path, entries: &[String], how: &mut OpenOptions) -> io::Result<()> {
    let mut lines = String::new();
    for entry in entries {
        lines.push_str(&serde_json::to_string(entry)?);
        lines.push('\n');
    }
    // In one write, so that two terminals do not mix their lines.
    how.create(true).mode(0o600).open(path)?.write_all(lines.as_bytes())
}
