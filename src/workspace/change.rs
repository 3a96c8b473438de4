//! Changing one file so that a crash leaves it either as it was or as it was to be, and so that
//! whoever looks at it afterwards can tell which.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::PoisonError;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use rustix::fs::{Mode, OFlags, openat};
use sha2::{Digest, Sha256};
use tracing::warn;

use super::opened::open_in;
use super::path::TEMPORARY_PREFIX;
use super::{FileError, OpenedFile, Workspace, WorkspacePath};
use crate::types::hex::hex;
use crate::types::session::{CallId, FileUndo, Intent};

/// The biggest file that may be replaced, in bytes: it is read whole to tell whether it is still
/// the one that was meant, which takes a small board about a second.
pub(super) const HASH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bounds of the search for leftovers when the workspace is opened: depth and number of entries. Leftovers beyond them
/// stay, hidden.
const SWEEP_DEPTH_MAX: usize = 12;
const SWEEP_ENTRIES_MAX: usize = 50_000;

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

/// The SHA-256 of a file's contents, in lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hash(String);

impl Hash {
    pub fn of(contents: &[u8]) -> Self {
        Self(hex(&Sha256::digest(contents)))
    }

    pub(super) fn finish(hasher: Sha256) -> Self {
        Self(hex(&hasher.finalize()))
    }

    /// One that was stored; none if it cannot be one.
    pub fn stored(text: &str) -> Option<Self> {
        let fits = |sign: u8| sign.is_ascii_digit() || (b'a'..=b'f').contains(&sign);
        (text.len() == 64 && text.bytes().all(fits)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// To compare with what an [`Intent`] has stored.
impl PartialEq<str> for Hash {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
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

impl Workspace {
    /// The hash of the file that `path` leads to, or None where there is none. At most 64 MiB.
    pub fn hash(&self, path: &WorkspacePath) -> Result<Option<Hash>, FileError> {
        match self.open_file(path).and_then(OpenedFile::hash) {
            Err(FileError::Missing(_)) => Ok(None),
            hash => hash.map(Some),
        }
    }

    /// Makes `change`, on disk for good when this returns. Its path has no links in it. Makes
    /// missing folders and keeps the file's mode. [`FileError::Changed`] if the file is not as it
    /// was before; somebody who saves it in the instant between that look and the rename loses
    /// their version.
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
            self.open_exactly(&path).map_err(|_| FileError::Changed(path.clone()))?;
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

/// A folder in `folder`, which is no link: somebody may have put one there since it was looked at.
pub(super) fn open_own(folder: &Dir, name: &str) -> io::Result<Dir> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = openat(folder, name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(own.into()))
}

/// Puts a new file in the place of `name`, all at once.
fn replace(folder: &Dir, name: &str, contents: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let temporary = format!("{TEMPORARY_PREFIX}{:016x}", fastrand::u64(..));
    let written = write_new(folder, &temporary, contents, mode)
        .and_then(|()| folder.rename(&temporary, folder, name))
        .and_then(|()| sync(folder));
    if written.is_err() {
        // After the rename there is nothing to remove.
        let _ = folder.remove_file(&temporary);
    }
    written
}

/// Writes a file that must not exist yet, for this account alone if no `mode` is given.
pub(super) fn write_new(
    folder: &Dir,
    name: &str,
    contents: &[u8],
    mode: Option<Permissions>,
) -> io::Result<()> {
    let mut file =
        folder.open_with(name, OpenOptions::new().write(true).create_new(true).mode(0o600))?;
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode.mode() & 0o777))?;
    }
    file.write_all(contents)?;
    file.sync_all()
}

/// Writes a folder's names to disk.
pub(super) fn sync(folder: &Dir) -> io::Result<()> {
    // A `Dir` itself may be opened as a mere place, which cannot be synced.
    folder.open(".")?.sync_all()
}

/// Removes what writes that were cut short have left.
pub(super) fn sweep(root: &Dir) {
    let mut left = SWEEP_ENTRIES_MAX;
    if let Err(error) = sweep_folder(root, SWEEP_DEPTH_MAX, &mut left) {
        warn!(%error, "Cannot look for leftover temporary files in the workspace");
    }
}

fn sweep_folder(folder: &Dir, depth: usize, left: &mut usize) -> io::Result<()> {
    for entry in folder.entries()? {
        let Some(less) = left.checked_sub(1) else { return Ok(()) };
        *left = less;
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if kind.is_dir() && depth > 0 {
            // What cannot be opened was not written by us.
            if let Ok(inner) = folder.open_dir(Path::new(&name)) {
                sweep_folder(&inner, depth - 1, left)?;
            }
        } else if kind.is_file() && name.to_string_lossy().starts_with(TEMPORARY_PREFIX) {
            folder.remove_file(Path::new(&name))?;
        }
    }
    Ok(())
}
