//! The contents that changes would give to files, worked out but not made. They are in memory: nothing is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};

use super::path::WorkspacePath;

/// Files as changes would leave them, by their paths without links.
#[derive(Clone, Default)]
pub(super) struct PendingFiles(BTreeMap<WorkspacePath, Option<Arc<[u8]>>>);

impl PendingFiles {
    /// Adds a file. None: it would be taken away.
    pub(super) fn put(&mut self, path: WorkspacePath, contents: Option<Arc<[u8]>>) {
        self.0.insert(path, contents);
    }

    /// Returns true if one of the changes is about a file.
    pub(super) fn has(&self, path: &WorkspacePath) -> bool {
        self.0.contains_key(path)
    }

    /// Opens a file as changes would leave it, with its size in bytes. None if none of them is about it.
    pub(super) fn open(&self, path: &WorkspacePath) -> Option<io::Result<(File, u64)>> {
        let contents = self.0.get(path)?;
        Some(match contents {
            Some(contents) => in_memory(contents).map(|file| (file, contents.len() as u64)),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }
}

fn in_memory(contents: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("pending", MemfdFlags::CLOEXEC)?);
    file.write_all(contents)?;
    file.rewind()?;
    Ok(file)
}
