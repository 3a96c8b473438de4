//! The state of named files and folders before and after a command, by which its changes are listed. Files are not read:
//! size, times and inode tell that they are different. Not here: instructions, whose former text is kept
//! (`trust::instruction_watch`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::command_folders::HOME;
use super::files::shown;
use super::path::TEMPORARY_PREFIX;
use super::stamp::Stamp;
use super::{FileScope, Workspace, WorkspacePath};

/// Maximum number of files that are compared: a large repository. Looking at each costs microseconds.
const FILES_MAX: usize = 5_000;

/// Maximum number of folders that are looked at.
const FOLDERS_MAX: usize = 5_000;

/// Maximum depth of folders that are looked into, in names of a path.
const DEPTH_MAX: usize = 64;

/// The names of a path. In this order, all of a folder stands together.
type PathNames = Vec<String>;

/// The stamps of files, in the order of their paths.
pub struct PathStamps {
    files: BTreeMap<PathNames, Stamp>,
    /// Number of folders that were looked at.
    folders: usize,
    /// False if there are more files. Then those up to the last one are all there are.
    is_whole: bool,
}

/// A file that is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    pub kind: PathChangeKind,
    /// The path in the form that the command used.
    pub path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChangeKind {
    Created,
    Changed,
    Deleted,
}

impl PathChangeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// The files that are different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChanges {
    /// Those that make programs run come first, and git's own records last.
    pub all: Vec<PathChange>,
    /// False if there were more files than can be compared.
    pub is_whole: bool,
}

impl Workspace {
    /// Stamps the files at these paths of a scope, and all below them, without following links in them.
    pub fn stamp_paths(&self, scope: &FileScope, named: &[WorkspacePath]) -> PathStamps {
        let mut named: Vec<_> = named.iter().map(|path| (names_of(path), path)).collect();
        named.sort();
        let mut stamps = PathStamps { files: BTreeMap::new(), folders: 0, is_whole: true };
        let mut last: Option<&WorkspacePath> = None;
        for (names, given) in named {
            // What lies within another named path was stamped with that one.
            if !stamps.is_whole || last.is_some_and(|last| given.is_within(last)) {
                continue;
            }
            last = Some(given);
            let path = scope.path(given);
            if let Ok(folder) = self.open_folder_for(&path, scope) {
                stamps.add_folder(folder.dir(), &names);
            } else if let Ok(file) = self.open_for(&path, scope) {
                let (file, _) = file.into_file();
                stamps.add_file(names, &file);
            }
        }
        stamps
    }
}

impl PathStamps {
    fn add_file(&mut self, names: PathNames, file: &File) {
        let Ok(found) = file.metadata() else { return };
        self.files.insert(names, Stamp::from(&found));
    }

    /// Adds all in a folder, in order. A folder that is too large is left out whole, with all after it.
    fn add_folder(&mut self, folder: &Dir, names: &[String]) {
        self.folders += 1;
        if self.folders > FOLDERS_MAX {
            self.is_whole = false;
            return;
        }
        let Ok(read) = folder.entries() else {
            self.is_whole = false;
            return;
        };
        let mut entries = Vec::new();
        for entry in read.flatten() {
            let name = entry.file_name();
            let is_ours = name.to_string_lossy().starts_with(TEMPORARY_PREFIX);
            // What vanishes meanwhile is not there.
            let Ok(found) = entry.metadata() else { continue };
            if !is_ours {
                entries.push((shown(&name.to_string_lossy()), name, found));
            }
            if entries.len() + self.files.len() > FILES_MAX {
                self.is_whole = false;
                return;
            }
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, raw_name, found) in entries {
            let path: PathNames = names.iter().cloned().chain([name]).collect();
            if found.file_type().is_dir() {
                match open_below(folder, &raw_name) {
                    Ok(below) if path.len() < DEPTH_MAX => self.add_folder(&below, &path),
                    _ => self.is_whole = false,
                }
                if !self.is_whole {
                    return;
                }
            } else {
                self.files.insert(path, Stamp::from(&found));
            }
        }
    }

    /// Returns true if a file at this path would have been stamped.
    fn covers(&self, names: &[String]) -> bool {
        let last = self.files.last_key_value();
        self.is_whole || last.is_some_and(|(last, _)| names <= last.as_slice())
    }

    /// Returns the files that are different in later stamps of the same paths.
    pub fn changes(&self, after: &Self) -> PathChanges {
        let mut all = Vec::new();
        let mut add =
            |kind, names: &PathNames| all.push(PathChange { kind, path: names.join("/") });
        for (names, stamp) in &after.files {
            match self.files.get(names) {
                Some(before) if before == stamp => {}
                Some(_) => add(PathChangeKind::Changed, names),
                None if self.covers(names) => add(PathChangeKind::Created, names),
                None => {}
            }
        }
        for names in self.files.keys() {
            if !after.files.contains_key(names) && after.covers(names) {
                add(PathChangeKind::Deleted, names);
            }
        }
        all.sort_by_cached_key(|change| (rank(&change.path), change.path.clone()));
        PathChanges { all, is_whole: self.is_whole && after.is_whole }
    }
}

fn names_of(path: &WorkspacePath) -> PathNames {
    path.as_str().split('/').map(str::to_owned).collect()
}

/// Opens a folder in a folder; it is no link.
fn open_below(folder: &Dir, name: &OsStr) -> Result<Dir, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let below = openat(folder, name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(below.into()))
}

/// Returns the place of a file in a list that may be cut. A hook or a config of git makes its next command run programs,
/// and so may settings in the `HOME` of commands; git's other records change with each command.
fn rank(path: &str) -> u8 {
    if path.split('/').next() == Some(HOME) {
        return 0;
    }
    let mut names = path.split('/').skip_while(|name| *name != ".git");
    let is_in_git = names.next().is_some();
    let mut rest = names.peekable();
    match is_in_git {
        false => 1,
        true if rest.peek().is_none() || rest.any(|name| ["hooks", "config"].contains(&name)) => 0,
        true => 2,
    }
}
