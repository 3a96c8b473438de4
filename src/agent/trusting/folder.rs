//! The files beneath an untrusted folder, each with the command that shows it. Nothing is copied here: the owner decides
//! about each file.

use std::collections::VecDeque;

use super::FILE_BYTES_MAX;
use crate::replies::{self, FolderToTrust};
use crate::short_text::is_invisible;
use crate::workspace::{EntryKind, FileError, FileScope, OpenedFolder, Workspace, WorkspacePath};

/// Maximum number of files in a list: as many as somebody goes through one by one.
const FILES_MAX: usize = 20;

/// Maximum number of files, folders and links that are looked at, so that a command is answered at once: a large
/// repository has more.
const ENTRIES_MAX: usize = 5_000;

/// Returns the list for the owner. None if the path leads to no untrusted folder.
pub(super) fn list(workspace: &Workspace, given: &str) -> Option<String> {
    let path: WorkspacePath = given.parse().ok()?;
    if !path.is_untrusted() || open(workspace, &path).is_err() {
        return None;
    }
    let mut walk = FolderWalk {
        workspace,
        folders: VecDeque::from([path.clone()]),
        hidden: VecDeque::new(),
        entries: 0,
        found: FolderToTrust { path: path.to_string(), ..FolderToTrust::default() },
    };
    walk.go();
    Some(replies::folder_to_trust(&walk.found))
}

/// Opens a folder at a path without links.
fn open(workspace: &Workspace, path: &WorkspacePath) -> Result<OpenedFolder, FileError> {
    let folder = workspace.open_folder_for(path, &FileScope::Owner)?;
    match folder.path() == Some(path) {
        true => Ok(folder),
        false => Err(FileError::Changed(path.clone())),
    }
}

/// A walk through a folder and those beneath it, the nearest first.
struct FolderWalk<'a> {
    workspace: &'a Workspace,
    /// The folders that come next.
    folders: VecDeque<WorkspacePath>,
    /// Folders such as `.git`, which come last.
    hidden: VecDeque<WorkspacePath>,
    entries: usize,
    found: FolderToTrust,
}

impl FolderWalk<'_> {
    fn go(&mut self) {
        while let Some(path) = self.folders.pop_front().or_else(|| self.hidden.pop_front()) {
            match open(self.workspace, &path) {
                Err(error) => self.leave_out(&path, &error),
                Ok(folder) => self.add_all(&folder, &path),
            }
        }
    }

    fn add_all(&mut self, folder: &OpenedFolder, path: &WorkspacePath) {
        let listing = folder.list();
        self.found.is_cut |= listing.cut;
        for entry in listing.entries {
            if self.entries == ENTRIES_MAX {
                self.found.is_cut = true;
                return;
            }
            self.entries += 1;
            let Ok(below) = folder.path_of(&entry.name) else {
                let below = format!("{path}/{}", entry.name);
                self.leave_out(&below, &replies::NAME_NOT_WRITABLE);
                continue;
            };
            match entry.kind {
                EntryKind::Folder if entry.name.starts_with('.') => self.hidden.push_back(below),
                EntryKind::Folder => self.folders.push_back(below),
                EntryKind::Link => self.leave_out(&below, &replies::IS_A_LINK),
                EntryKind::File(_) | EntryKind::Special => self.add_file(&below),
            }
        }
    }

    fn add_file(&mut self, path: &WorkspacePath) {
        if self.found.files.len() == FILES_MAX {
            self.found.more += 1;
            return;
        }
        // A command ends before its last spaces.
        let is_writable = path.as_str().trim() == path.as_str();
        if !is_writable || path.as_str().contains(is_invisible) {
            self.leave_out(path, &replies::NAME_NOT_WRITABLE);
            return;
        }
        match size_of(self.workspace, path) {
            Ok(size) => self.found.files.push((path.to_string(), size)),
            Err(error) => self.leave_out(path, &error),
        }
    }

    fn leave_out(&mut self, path: &impl ToString, why: &impl ToString) {
        self.found.left_out.push((path.to_string(), why.to_string()));
    }
}

/// Returns the size of a file in bytes, if it can be copied.
fn size_of(workspace: &Workspace, path: &WorkspacePath) -> Result<u64, FileError> {
    let file = workspace.open_without_links(path)?;
    file.check_single_name()?;
    match file.size() {
        size if size > FILE_BYTES_MAX => {
            Err(FileError::TooBig { path: path.clone(), size, max: FILE_BYTES_MAX })
        }
        size => Ok(size),
    }
}
