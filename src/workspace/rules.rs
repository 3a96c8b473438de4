//! Everything that the bot goes by, read at once, so that two looks tell what was changed between them:
//! the rules of the house, USER.md and the skills. Bounded, as anybody may fill a folder of skills.

use std::collections::{BTreeSet, VecDeque};

use cap_std::fs::MetadataExt;

use super::path::shown_changed;
use super::skills::IN_WORKSPACE;
use super::{EntryKind, FileError, Workspace, WorkspacePath};

/// Files that are looked at; the skills that can be called are among the first of them.
const FILES_MAX: usize = 300;

/// Folders that are looked into, and how deep. Links can lead in circles.
const FOLDERS_MAX: usize = 300;
const DEPTH_MAX: usize = 8;

/// Of a file that is read, in bytes: as of a whole SKILL.md. Of a larger one it is seen whether it changed.
const CONTENTS_BYTES_MAX: u64 = 256 * 1024;

/// What a file holds.
pub enum Contents<'a> {
    Whole(&'a [u8]),
    /// It is too large to be read each time; what changes when it does.
    Large(String),
}

/// Shows `visit` each of the files, by the path at which the bot looks for it; links are followed. False if
/// there are more.
pub fn each(workspace: &Workspace, visit: &mut dyn FnMut(&WorkspacePath, Contents<'_>)) -> bool {
    let mut look = Look { workspace, visit, seen: BTreeSet::new(), is_whole: true };
    let mut folders = VecDeque::new();
    for name in shown_changed() {
        let path: WorkspacePath = name.parse().expect("our own names are paths");
        if look.at(&path) == Found::Folder {
            folders.push_back((path, 0));
        }
    }
    // What a model is told of comes before what else lies in these folders, of which there may be too much.
    for folder in IN_WORKSPACE {
        let folder: WorkspacePath = folder.parse().expect("our own names are paths");
        for path in below(workspace, &folder).0 {
            if let Ok(skill) = format!("{path}/SKILL.md").parse() {
                look.at(&skill);
            }
        }
    }
    let mut looked_into = 0;
    while let Some((folder, depth)) = folders.pop_front() {
        looked_into += 1;
        if looked_into > FOLDERS_MAX || depth > DEPTH_MAX {
            look.is_whole = false;
            continue;
        }
        let (paths, is_whole) = below(workspace, &folder);
        look.is_whole &= is_whole;
        for path in paths {
            if look.at(&path) == Found::Folder {
                folders.push_back((path, depth + 1));
            }
        }
    }
    look.is_whole
}

/// Shows `visit` one of them, if it is there.
pub fn one(
    workspace: &Workspace,
    path: &WorkspacePath,
    visit: &mut dyn FnMut(&WorkspacePath, Contents<'_>),
) {
    Look { workspace, visit, seen: BTreeSet::new(), is_whole: true }.at(path);
}

/// What a folder holds, and whether that is all.
fn below(workspace: &Workspace, folder: &WorkspacePath) -> (Vec<WorkspacePath>, bool) {
    let Ok(listing) = workspace.list(Some(folder)) else { return (Vec::new(), true) };
    let entries = listing.entries.iter().filter(|entry| entry.kind != EntryKind::Special);
    let paths = entries.filter_map(|entry| format!("{folder}/{}", entry.name).parse().ok());
    (paths.collect(), !listing.cut)
}

struct Look<'a> {
    workspace: &'a Workspace,
    visit: &'a mut dyn FnMut(&WorkspacePath, Contents<'_>),
    seen: BTreeSet<WorkspacePath>,
    is_whole: bool,
}

#[derive(PartialEq, Eq)]
enum Found {
    File,
    Folder,
    Nothing,
}

impl Look<'_> {
    fn at(&mut self, path: &WorkspacePath) -> Found {
        if self.seen.contains(path) {
            return Found::File;
        }
        let read = self.workspace.read_up_to(path, CONTENTS_BYTES_MAX);
        let contents = match &read {
            Ok(bytes) => Contents::Whole(bytes),
            Err(FileError::TooBig { .. }) => Contents::Large(stamp(self.workspace, path)),
            Err(FileError::Folder(_)) => return Found::Folder,
            // What cannot be read by us is no rule of ours.
            Err(_) => return Found::Nothing,
        };
        if self.seen.len() == FILES_MAX {
            self.is_whole = false;
            return Found::File;
        }
        self.seen.insert(path.clone());
        (self.visit)(path, contents);
        Found::File
    }
}

/// Who writes to a file can set when it was changed, but not when that was set.
fn stamp(workspace: &Workspace, path: &WorkspacePath) -> String {
    let found = workspace.0.dir.metadata(path);
    let words = |found: cap_std::fs::Metadata| {
        let (size, inode) = (found.len(), found.ino());
        format!("{size} bytes of {}.{} in {inode}", found.ctime(), found.ctime_nsec())
    };
    found.map(words).unwrap_or_default()
}
