//! Everything that the bot goes by, read at once, so that two looks tell what was changed between them:
//! The instructions, USER.md and the skills. Bounded, as anybody may fill a folder of skills.

use std::collections::{BTreeSet, VecDeque};
use std::path::Component;

use cap_std::fs::MetadataExt;

use super::path::reported_paths;
use super::skills::IN_WORKSPACE;
use super::{EntryKind, FileError, Workspace, WorkspacePath};

/// Files that are looked at; the skills that can be called are among the first of them.
const FILES_MAX: usize = 300;

/// Folders that are looked into, and how deep. Links can lead in circles.
const FOLDERS_MAX: usize = 300;
const DEPTH_MAX: usize = 8;

/// Maximum size of a file whose content is read, in bytes: that of a SKILL.md. Of a larger file, only changes are noticed.
const CONTENTS_BYTES_MAX: u64 = 256 * 1024;

/// Links that lead on to links with nothing at their end.
const LINKS_MAX: usize = 8;

/// The content of a file.
pub enum Contents<'a> {
    Whole(&'a [u8]),
    /// A file that is too large to be read each time, as a value that changes with it.
    Large(String),
    /// A link to a folder, or to a file that does not exist yet.
    Elsewhere,
    /// A file that cannot be read. Its last good version is in force.
    Blocked,
}

/// A visitor of files. It gets the path, the content, and for a link its target, which is empty for the workspace itself.
pub type FileVisitor<'a> = dyn FnMut(&WorkspacePath, Contents<'_>, Option<&str>) + 'a;

/// Shows `visit` each of the files, by the path at which the bot looks for it; links are followed. False if
/// there are more.
pub fn visit_all(workspace: &Workspace, visit: &mut FileVisitor<'_>) -> bool {
    let mut look = InstructionScan { workspace, visit, seen: BTreeSet::new(), is_whole: true };
    let mut folders = VecDeque::new();
    for name in reported_paths() {
        let path: WorkspacePath = name.parse().expect("our own names are paths");
        if look.at(&path) == FoundKind::Folder {
            folders.push_back((path, 0));
        }
    }
    // What a model is told of comes before what else lies in these folders, of which there may be too much.
    for folder in IN_WORKSPACE {
        let folder: WorkspacePath = folder.parse().expect("our own names are paths");
        for path in below(workspace, &folder).0 {
            if look.is_whole
                && let Ok(skill) = format!("{path}/SKILL.md").parse()
            {
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
            if look.is_full() && !look.is_whole {
                return false;
            }
            if look.at(&path) == FoundKind::Folder {
                folders.push_back((path, depth + 1));
            }
        }
    }
    look.is_whole
}

/// Shows `visit` one of them, if it is there.
pub fn visit_one(workspace: &Workspace, path: &WorkspacePath, visit: &mut FileVisitor<'_>) {
    InstructionScan { workspace, visit, seen: BTreeSet::new(), is_whole: true }.at(path);
}

/// Returns the files below a folder, and true if these are all.
fn below(workspace: &Workspace, folder: &WorkspacePath) -> (Vec<WorkspacePath>, bool) {
    let Ok(listing) = workspace.list(Some(folder)) else { return (Vec::new(), true) };
    let entries = listing.entries.iter().filter(|entry| entry.kind != EntryKind::Special);
    let paths = entries.filter_map(|entry| format!("{folder}/{}", entry.name).parse().ok());
    (paths.collect(), !listing.cut)
}

struct InstructionScan<'a, 'v> {
    workspace: &'a Workspace,
    visit: &'a mut FileVisitor<'v>,
    seen: BTreeSet<WorkspacePath>,
    is_whole: bool,
}

#[derive(PartialEq, Eq)]
enum FoundKind {
    File,
    Folder,
    Nothing,
}

impl InstructionScan<'_, '_> {
    fn is_full(&self) -> bool {
        self.seen.len() >= FILES_MAX
    }

    fn at(&mut self, path: &WorkspacePath) -> FoundKind {
        if self.seen.contains(path) {
            return FoundKind::File;
        }
        let dir = &self.workspace.0.dir;
        let Ok(itself) = dir.symlink_metadata(path) else { return FoundKind::Nothing };
        if self.is_full() {
            // There is no use in reading what is not shown.
            if dir.metadata(path).is_ok_and(|found| found.is_dir()) {
                return FoundKind::Folder;
            }
            self.is_whole = false;
            return FoundKind::File;
        }
        let link = itself.is_symlink().then(|| end_of(self.workspace, path)).flatten();
        let read = self.workspace.read_up_to(path, CONTENTS_BYTES_MAX);
        let (contents, found) = match &read {
            Ok(bytes) => (Contents::Whole(bytes), FoundKind::File),
            Err(FileError::TooBig { .. }) => {
                (Contents::Large(stamp(self.workspace, path)), FoundKind::File)
            }
            Err(FileError::Folder(_)) if link.is_some() => (Contents::Elsewhere, FoundKind::Folder),
            Err(FileError::Folder(_)) => return FoundKind::Folder,
            Err(FileError::Missing(_) | FileError::Dangling(_)) if link.is_some() => {
                (Contents::Elsewhere, FoundKind::Nothing)
            }
            Err(FileError::Missing(_)) => return FoundKind::Nothing,
            Err(_) => (Contents::Blocked, FoundKind::Nothing),
        };
        self.seen.insert(path.clone());
        (self.visit)(path, contents, link.as_deref());
        found
    }
}

impl Workspace {
    /// The path by which the bot goes by the file at `path`, if it does: its own, or one with a link on it
    /// that leads there. `path` has no links in it.
    pub fn find_instruction_path(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        if path.is_change_reported() {
            return Some(path.clone());
        }
        links(self).into_iter().find_map(|(link, end)| {
            let rest = match end.as_str() {
                "" => format!("/{path}"),
                end => path.as_str().strip_prefix(end)?.to_owned(),
            };
            match rest.is_empty() || rest.starts_with('/') {
                // One that is too long to be a path is named by where the link is.
                true => Some(format!("{link}{rest}").parse().unwrap_or(link)),
                false => None,
            }
        })
    }
}

/// The links among the files that the bot goes by, and where each leads.
fn links(workspace: &Workspace) -> Vec<(WorkspacePath, String)> {
    let dir = &workspace.0.dir;
    let mut links = Vec::new();
    let mut open: VecDeque<(WorkspacePath, usize)> =
        reported_paths().map(|name| (name.parse().expect("our own names are paths"), 0)).collect();
    let mut looked_into = 0;
    while let Some((path, depth)) = open.pop_front() {
        let Ok(itself) = dir.symlink_metadata(&path) else { continue };
        if itself.is_symlink()
            && let Some(end) = end_of(workspace, &path)
        {
            links.push((path.clone(), end));
        }
        if !dir.metadata(&path).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        looked_into += 1;
        if looked_into > FOLDERS_MAX || depth > DEPTH_MAX {
            continue;
        }
        let Ok(listing) = workspace.list(Some(&path)) else { continue };
        let leading = |kind| matches!(kind, EntryKind::Folder | EntryKind::Link);
        let entries = listing.entries.iter().filter(|entry| leading(entry.kind));
        let below = entries.filter_map(|entry| format!("{path}/{}", entry.name).parse().ok());
        open.extend(below.map(|path| (path, depth + 1)));
    }
    links
}

/// Returns the last target of a link, which need not exist; empty for the workspace itself. None if it leads outside of
/// the workspace.
fn end_of(workspace: &Workspace, link: &WorkspacePath) -> Option<String> {
    let mut at = link.clone();
    for _ in 0..LINKS_MAX {
        match workspace.resolve(&at) {
            Ok(end) => return Some(end.to_string()),
            Err(FileError::Dangling(dangling)) => at = aim(workspace, &dangling)?,
            Err(_) => {
                let end = workspace.0.dir.canonicalize(&at).ok()?;
                let is_root = end.components().all(|name| name == Component::CurDir);
                return is_root.then(String::new);
            }
        }
    }
    None
}

/// Returns the target of a link, as a path of the workspace.
fn aim(workspace: &Workspace, link: &WorkspacePath) -> Option<WorkspacePath> {
    let folder = match link.parent() {
        Some(parent) => workspace.resolve(&parent).ok()?.to_string(),
        None => String::new(),
    };
    let mut names: Vec<_> = folder.split('/').map(str::to_owned).collect();
    for name in workspace.0.dir.read_link(link).ok()?.components() {
        match name {
            Component::Normal(name) => names.push(name.to_str()?.to_owned()),
            Component::ParentDir => drop(names.pop()?),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir => return None,
        }
    }
    names.join("/").trim_start_matches('/').parse().ok()
}

/// Returns the change time of the inode: a writer can set a file's modification time, but not this one.
fn stamp(workspace: &Workspace, path: &WorkspacePath) -> String {
    let found = workspace.0.dir.metadata(path);
    let words = |found: cap_std::fs::Metadata| {
        let (size, inode) = (found.len(), found.ino());
        format!("{size} bytes of {}.{} in {inode}", found.ctime(), found.ctime_nsec())
    };
    found.map(words).unwrap_or_default()
}
