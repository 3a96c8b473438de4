//! Files that come in: written under a temporary name, put in their place once they are whole, and
//! cleared away, the oldest first, when there are too many. Nothing here follows a link.

use std::io::{self, Read};
use std::time::SystemTime;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

use super::change::{open_own, sync};
use super::path::{INBOX, TEMPORARY_PREFIX};
use super::{FileError, Workspace, WorkspacePath};

/// Of a file's name, its last bytes, which hold its ending; the rest of a name is for what makes it unique.
const COPY_NAME_BYTES_MAX: usize = 120;

/// A file in the making; removed when this is dropped before it was kept.
pub struct Incoming {
    folder: Dir,
    temporary: String,
    path: WorkspacePath,
    kept: bool,
}

impl Workspace {
    /// Begins a file for this account alone, and gives it to be written.
    pub fn begin_file(&self, path: &WorkspacePath) -> Result<(Incoming, std::fs::File), FileError> {
        let begin = || {
            let folder = self.own_folder_of(path)?;
            let temporary = format!("{TEMPORARY_PREFIX}{:016x}", fastrand::u64(..));
            let options = OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
            let file = folder.open_with(&temporary, &options)?;
            Ok((Incoming { folder, temporary, path: path.clone(), kept: false }, file.into_std()))
        };
        begin().map_err(|error| FileError::new(path, error))
    }

    /// Copies what is to be sent, however late, into the inbox: it lies with what people sent, which is the
    /// owner's to see and bounded. Gives the path of the copy.
    pub fn copy_in(
        &self,
        mut from: impl Read,
        name: &str,
        month: &str,
    ) -> Result<WorkspacePath, FileError> {
        let start = name.len().saturating_sub(COPY_NAME_BYTES_MAX);
        let name = &name[name.ceil_char_boundary(start)..];
        let path = format!("{INBOX}/{month}/sent-{:016x}-{name}", fastrand::u64(..));
        let path: WorkspacePath = path.parse().map_err(|error| FileError::Name(Box::new(error)))?;
        let (incoming, mut into) = self.begin_file(&path)?;
        io::copy(&mut from, &mut into).map_err(|error| FileError::new(&path, error))?;
        incoming.keep(&into)
    }

    /// Makes a folder, if it is missing.
    pub fn make_folder(&self, path: &WorkspacePath) -> Result<(), FileError> {
        let make = || {
            let parent = self.own_folder_of(path)?;
            match parent.create_dir(path.name()) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            if is_folder(&parent, path.name()) {
                return Ok(());
            }
            Err(io::ErrorKind::NotADirectory.into())
        };
        make().map_err(|error| FileError::new(path, error))
    }

    /// Deletes the oldest files in the folders of `folder` until all together have at most
    /// `bytes_max`; but none whose name begins with `kept`.
    pub fn make_room(&self, folder: &str, bytes_max: u64, kept: &str) -> io::Result<()> {
        let mut files = Vec::new();
        if !is_folder(&self.0.dir, folder) {
            return Ok(());
        }
        let root = self.0.dir.open_dir(folder)?;
        for month in root.entries()? {
            let month = month?;
            let Ok(name) = month.file_name().into_string() else { continue };
            if month.file_type()?.is_dir() {
                list(&root.open_dir(&name)?, &name, &mut files)?;
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(.., size)| size).sum();
        for (_, month, name, size) in files {
            if total <= bytes_max {
                break;
            }
            if !name.starts_with(kept) {
                root.remove_file(format!("{month}/{name}"))?;
                total -= size;
                tracing::info!(file = %format!("{folder}/{month}/{name}"), "Made room for files");
            }
        }
        Ok(())
    }

    /// Removes a file; one that is not there is fine.
    pub fn remove(&self, path: &WorkspacePath) {
        if let Err(error) = self.0.dir.remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%path, %error, "Cannot remove a file");
        }
    }

    /// The folder that is to hold `path`, made if it was missing; no part of the way is a link.
    fn own_folder_of(&self, path: &WorkspacePath) -> io::Result<Dir> {
        let mut folder = self.0.dir.try_clone()?;
        let parent = path.parent();
        for name in parent.iter().flat_map(|parent| parent.as_str().split('/')) {
            match folder.create_dir(name) {
                Ok(()) => sync(&folder)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            if !is_folder(&folder, name) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            folder = open_own(&folder, name)?;
        }
        Ok(folder)
    }
}

/// When it was changed, its folder, its name, its size.
type IncomingFile = (SystemTime, String, String, u64);

fn list(folder: &Dir, month: &str, files: &mut Vec<IncomingFile>) -> io::Result<()> {
    for entry in folder.entries()? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let found = entry.metadata()?;
        if found.is_file() && !name.starts_with(TEMPORARY_PREFIX) {
            files.push((found.modified()?.into_std(), month.to_owned(), name, found.len()));
        }
    }
    Ok(())
}

fn is_folder(within: &Dir, name: &str) -> bool {
    within.symlink_metadata(name).is_ok_and(|found| found.is_dir())
}

impl Incoming {
    /// Puts the whole file in its place, on disk for good when this returns. What has that name is
    /// replaced.
    pub fn keep(mut self, file: &std::fs::File) -> Result<WorkspacePath, FileError> {
        let kept = file
            .sync_all()
            .and_then(|()| self.folder.rename(&self.temporary, &self.folder, self.path.name()))
            .and_then(|()| sync(&self.folder));
        self.kept = kept.is_ok();
        kept.map_err(|error| FileError::new(&self.path, error)).map(|()| self.path.clone())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.kept {
            // If it is gone, there is nothing to remove.
            let _ = self.folder.remove_file(&self.temporary);
        }
    }
}
