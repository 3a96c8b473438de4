//! Files that come in: written under a temporary name, put in their place once they are whole, and
//! cleared away, the oldest first, when there are too many. Nothing here follows a link.

use std::io::{self, Read};
use std::time::SystemTime;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

use super::folders::{DOWNLOADS, GROUPS, OUTPUTS, PEOPLE, SHARED, WORKSPACE};
use super::free_place::NUMBER_MAX;
use super::path::{INBOX, TEMPORARY_PREFIX};
use super::writes::{is_folder, make_own, open_own, sync};
use super::{FileError, Workspace, WorkspacePath};

/// Maximum length of the part of a file's name that is kept, in bytes: the end, with the extension. The rest of the name
/// makes it unique.
const COPY_NAME_BYTES_MAX: usize = 120;

/// A file in the making; removed when this is dropped before it was kept.
pub struct PartialFile {
    folder: Dir,
    temporary: String,
    path: WorkspacePath,
    kept: bool,
}

impl Workspace {
    /// Begins a file for this account alone, and gives it to be written.
    pub fn create_partial_file(
        &self,
        path: &WorkspacePath,
    ) -> Result<(PartialFile, std::fs::File), FileError> {
        let begin = || {
            let folder = self.own_folder_of(path)?;
            let temporary = format!("{TEMPORARY_PREFIX}{:016x}", fastrand::u64(..));
            let options = OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
            let file = folder.open_with(&temporary, &options)?;
            Ok((
                PartialFile { folder, temporary, path: path.clone(), kept: false },
                file.into_std(),
            ))
        };
        begin().map_err(|error| FileError::new(path, error))
    }

    /// Copies what is to be sent, however late, and gives the path of the copy. It lies in the folder of the
    /// file that it is a copy of, among the outputs of commands, which are bounded: a copy is as trusted and
    /// as private as its file.
    pub fn copy_in(
        &self,
        mut from: impl Read,
        of: &WorkspacePath,
        month: &str,
    ) -> Result<WorkspacePath, FileError> {
        let name = of.name();
        let start = name.len().saturating_sub(COPY_NAME_BYTES_MAX);
        let name = &name[name.ceil_char_boundary(start)..];
        let name = format!("sent-{:016x}-{name}", fastrand::u64(..));
        let path = self.free_place(&outputs_beside(of).join(month).join(&name));
        let (incoming, mut into) = self.create_partial_file(&path)?;
        io::copy(&mut from, &mut into).map_err(|error| FileError::new(&path, error))?;
        incoming.save(&into)
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

    /// Deletes the oldest files in the months' folders of some folders until all together have at most
    /// `bytes_max`; but none whose name begins with `kept`.
    pub fn make_room(
        &self,
        folders: &[WorkspacePath],
        bytes_max: u64,
        kept: &str,
    ) -> io::Result<()> {
        let mut files = Vec::new();
        for folder in folders {
            let Some(root) = self.own_folder(folder) else { continue };
            for month in root.entries()? {
                let month = month?;
                let Ok(name) = month.file_name().into_string() else { continue };
                if month.file_type()?.is_dir() && is_month(&name) {
                    list(&open_own(&root, &name)?, &folder.join(&name), &mut files)?;
                }
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(.., size)| size).sum();
        for (_, path, size) in files {
            if total <= bytes_max {
                break;
            }
            if !path.name().starts_with(kept) {
                self.remove(&path);
                total -= size;
                tracing::info!(file = %path, "Made room for files");
            }
        }
        Ok(())
    }

    /// The folders of all persons and groups in which attachments lie.
    pub fn attachment_folders(&self) -> Vec<WorkspacePath> {
        let within = |folder: &'static str| {
            let folder = WorkspacePath::own(folder);
            let listing = self.list(Some(&folder)).unwrap_or_default();
            listing.entries.into_iter().map(move |entry| folder.join(&entry.name))
        };
        let mut folders = vec![WorkspacePath::own(DOWNLOADS), WorkspacePath::own(INBOX)];
        folders.extend(within(PEOPLE).map(|own| own.join(DOWNLOADS)));
        folders.extend(within(GROUPS));
        folders
    }

    /// Removes a file; one that is not there is fine.
    pub fn remove(&self, path: &WorkspacePath) {
        let remove = || {
            let Some(folder) = path.parent() else { return self.0.dir.remove_file(path) };
            let folder = self.own_folder(&folder).ok_or(io::ErrorKind::NotFound)?;
            folder.remove_file(path.name())
        };
        if let Err(error) = remove()
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%path, %error, "Cannot remove a file");
        }
    }

    /// A folder, if it is there and no part of the way is a link.
    pub(super) fn own_folder(&self, path: &WorkspacePath) -> Option<Dir> {
        let mut folder = self.base(path).try_clone().ok()?;
        for name in path.as_str().split('/') {
            folder = open_own(&folder, name).ok()?;
        }
        Some(folder)
    }

    /// The folder that is to hold `path`, made if it was missing; no part of the way is a link.
    pub(super) fn own_folder_of(&self, path: &WorkspacePath) -> io::Result<Dir> {
        let parent = path.parent();
        let names = parent.iter().flat_map(|parent| parent.as_str().split('/'));
        make_own(self.base(path).try_clone()?, names)
    }
}

/// When it was changed, its path, its size in bytes.
type IncomingFile = (SystemTime, WorkspacePath, u64);

fn list(folder: &Dir, path: &WorkspacePath, files: &mut Vec<IncomingFile>) -> io::Result<()> {
    for entry in folder.entries()? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let found = entry.metadata()?;
        if found.is_file() && !name.starts_with(TEMPORARY_PREFIX) {
            files.push((found.modified()?.into_std(), path.join(&name), found.len()));
        }
    }
    Ok(())
}

/// Returns true for the name of a month's folder: `2026-11`, or `2026-11_2` if that was taken. Other folders are a
/// person's own.
fn is_month(name: &str) -> bool {
    let (name, number) = name.split_once('_').unwrap_or((name, "2"));
    let is_number = !number.starts_with(['0', '+'])
        && number.parse().is_ok_and(|number: usize| (2..=NUMBER_MAX).contains(&number));
    if !is_number {
        return false;
    }
    let fits = |(at, sign): (usize, u8)| if at == 4 { sign == b'-' } else { sign.is_ascii_digit() };
    name.len() == 7 && name.bytes().enumerate().all(fits)
}

/// The folder for outputs and copies that is in the same folder as a file.
fn outputs_beside(of: &WorkspacePath) -> WorkspacePath {
    let names: Vec<&str> = of.as_str().split('/').collect();
    let scope = match names.as_slice() {
        [PEOPLE, person, WORKSPACE, ..] => WorkspacePath::own(PEOPLE).join(person).join(WORKSPACE),
        [PEOPLE, person, ..] => WorkspacePath::own(PEOPLE).join(person).join(DOWNLOADS),
        [GROUPS, group, ..] => WorkspacePath::own(GROUPS).join(group),
        [SHARED, ..] => WorkspacePath::own(SHARED),
        _ if of.is_untrusted() => WorkspacePath::own(DOWNLOADS),
        _ => return WorkspacePath::own(OUTPUTS),
    };
    scope.join(OUTPUTS)
}

impl PartialFile {
    /// Moves the whole file to its path, and replaces a file of that name. It is synced to the disk when this returns.
    pub fn save(mut self, file: &std::fs::File) -> Result<WorkspacePath, FileError> {
        let kept = file
            .sync_all()
            .and_then(|()| self.folder.rename(&self.temporary, &self.folder, self.path.name()))
            .and_then(|()| sync(&self.folder));
        self.kept = kept.is_ok();
        kept.map_err(|error| FileError::new(&self.path, error)).map(|()| self.path.clone())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.kept {
            // If it is gone, there is nothing to remove.
            let _ = self.folder.remove_file(&self.temporary);
        }
    }
}
