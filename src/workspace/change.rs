//! Changing one file so that a crash leaves it either as it was or as it was to be, and so that
//! whoever looks at it afterwards can tell which.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError};

use cap_std::fs::Dir;
use rustix::fs::fstatvfs;

use super::opened::open_in;
use super::pending::PendingFiles;
use super::writes::{open_own, replace, sync};
use super::{FileError, Hash, OpenedFile, Workspace, WorkspacePath};
use crate::types::session::{CallId, FileUndo, Intent};

/// A change of one file, worked out but not made. Links are resolved in its path.
#[derive(Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: WorkspacePath,
    /// None: there was no file.
    pub before: Option<Hash>,
    /// None: there is to be none.
    pub after: Option<Hash>,
    pub contents: Vec<u8>,
}

impl FileChange {
    pub fn new(path: WorkspacePath, before: Option<Hash>, contents: Vec<u8>) -> Self {
        Self { path, before, after: Some(Hash::of(&contents)), contents }
    }

    /// Takes the file away.
    pub fn removal(path: WorkspacePath, before: Hash) -> Self {
        Self { path, before: Some(before), after: None, contents: Vec::new() }
    }

    /// Returns the record that is committed before the change is made.
    pub fn intent(&self, undoes: Option<CallId>) -> Intent {
        let FileUndo { path, before, after } = self.undo();
        Intent::File { path, before, after, undoes }
    }

    /// Returns the record for undoing it.
    pub fn undo(&self) -> FileUndo {
        FileUndo {
            path: self.path.as_str().to_owned(),
            before: self.before.as_ref().map(Hash::to_string),
            after: self.after.as_ref().map(Hash::to_string),
        }
    }
}

/// Without the contents, which do not belong into logs.
impl fmt::Debug for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileChange")
            .field("path", &self.path)
            .field("before", &self.before)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// Space that a new large file leaves free on the disk, in bytes: as much as commands leave.
const LEFT_BYTES: u64 = 256 * 1024 * 1024;

impl Workspace {
    /// Returns the workspace as it would be after a change, so that the next change can be worked out. What opens a file by
    /// a path without links sees it so, and nothing else does. Nothing is written.
    pub fn with_change(&self, change: &FileChange) -> Self {
        let contents = change.after.is_some().then(|| change.contents.as_slice().into());
        let mut pending = PendingFiles::clone(&self.1);
        pending.put(change.path.clone(), contents);
        Self(Arc::clone(&self.0), Arc::new(pending))
    }

    /// Returns true if changes that were worked out are about a file.
    pub fn would_change(&self, path: &WorkspacePath) -> bool {
        self.1.has(path)
    }

    /// Returns true if the disk has room for a new file of this size, in bytes.
    pub fn has_room_for(&self, size: u64) -> bool {
        // A disk that cannot be asked refuses the write itself.
        fstatvfs(&self.0.dir).map_or(true, |disk| {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            free >= size.saturating_add(LEFT_BYTES)
        })
    }

    /// The hash of the file that `path` leads to, or None where there is none. At most 64 MiB.
    pub fn hash(&self, path: &WorkspacePath) -> Result<Option<Hash>, FileError> {
        match self.open_file(path).and_then(OpenedFile::hash) {
            Err(FileError::Missing(_)) => Ok(None),
            hash => hash.map(Some),
        }
    }

    /// Makes a change, which is synced to the disk when this returns. Its path must have no links. Creates missing folders,
    /// and keeps the mode of the file. Returns [`FileError::Changed`] if the file has changed since the change was
    /// prepared. A version that somebody saves between this check and the rename is lost.
    pub fn apply(&self, change: &FileChange) -> Result<(), FileError> {
        // Two changes of one file at once would both find it as it was before.
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.resolve(&change.path)?;
        // It was looked at with its links resolved: whatever is a link now was put there since.
        if path != change.path {
            return Err(FileError::Changed(path));
        }
        let failed = |error| FileError::new(&path, error);
        // A file that is to be there has a folder; a missing one is not made for nothing.
        if change.before.is_some() {
            self.open_without_links(&path).map_err(|_| FileError::Changed(path.clone()))?;
        }
        let folder = self.folder_of(&path).map_err(failed)?;
        let before = match open_in(&folder, &path).and_then(OpenedFile::hash) {
            Err(FileError::Missing(_)) => None,
            hash => Some(hash?),
        };
        if before != change.before {
            return Err(FileError::Changed(path));
        }
        let mode = match folder.symlink_metadata(path.name()) {
            Ok(found) if !found.is_file() => return Err(FileError::Changed(path)),
            Ok(found) => Some(found.permissions()),
            Err(_) => None,
        };
        if change.after.is_none() {
            return folder.remove_file(path.name()).and_then(|()| sync(&folder)).map_err(failed);
        }
        replace(&folder, path.name(), &change.contents, mode).map_err(failed)
    }

    /// The folder that holds `path`, made if it was missing. It stays the same folder, whatever
    /// becomes of its name.
    fn folder_of(&self, path: &WorkspacePath) -> io::Result<Dir> {
        let mut folder = self.base(path).try_clone()?;
        let Some(parent) = path.parent() else { return Ok(folder) };
        for name in parent.as_str().split('/') {
            match folder.create_dir(name) {
                Ok(()) => sync(&folder)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            folder = open_own(&folder, name)?;
        }
        Ok(folder)
    }
}
