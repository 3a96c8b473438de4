//! Other names (hard links) of files that no command sees, such as the memory. The kernel lets a command open a file by
//! each of its names, so a folder that holds such a name cannot be shown to it. Not here: symbolic links, which lead
//! nowhere in a sandbox.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{FileScope, Workspace, WorkspacePath};

/// Maximum number of entries that are looked at for one command: a large source tree with its packages. It takes about
/// a second on a small board, and only if a private file has another name at all.
const ENTRIES_MAX: usize = 200_000;

/// The files that no command of a scope sees and that have another name.
#[derive(Debug, Default)]
pub struct PrivateLinks(HashSet<FileId>);

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileId {
    device: u64,
    inode: u64,
}

/// The result of a search for other names of private files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkSearch {
    None,
    Found(PathBuf),
    /// There is too much to look at all of it.
    TooMany,
}

impl Workspace {
    /// Finds the private files of a scope that have another name. Usually there is none. A group has no private files.
    pub fn private_links(&self, scope: &FileScope) -> io::Result<PrivateLinks> {
        let root = match (scope, scope.root()) {
            (FileScope::Group { .. }, _) => return Ok(PrivateLinks::default()),
            (_, Some(root)) => self.on_disk(&root)?,
            (_, None) => self.root().canonicalize()?,
        };
        let entries = match fs::read_dir(&root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(PrivateLinks::default());
            }
            entries => entries?,
        };
        let (mut ids, mut left) = (HashSet::new(), ENTRIES_MAX);
        for entry in entries {
            let entry = entry?;
            let path = entry.file_name().to_string_lossy().parse::<WorkspacePath>();
            if path.is_ok_and(|path| path.is_private() && !path.is_received()) {
                // The entry itself may be a link to the folder.
                let Ok(found) = entry.path().canonicalize() else { continue };
                let complete = visit_files(&found, &mut left, &mut |_, found| {
                    ids.extend(linked_id(found));
                    true
                })?;
                if !complete {
                    return Err(io::Error::other("too many files in the memory"));
                }
            }
        }
        Ok(PrivateLinks(ids))
    }
}

impl PrivateLinks {
    /// Looks for another name of a private file at a place on disk and below it.
    pub fn find_below(&self, place: &Path) -> io::Result<LinkSearch> {
        if self.0.is_empty() {
            return Ok(LinkSearch::None);
        }
        let (mut left, mut link) = (ENTRIES_MAX, None);
        let complete = visit_files(place, &mut left, &mut |path, found| {
            let is_private = linked_id(found).is_some_and(|id| self.0.contains(&id));
            if is_private {
                link = Some(path.to_owned());
            }
            !is_private
        })?;
        Ok(match link {
            Some(link) => LinkSearch::Found(link),
            None if complete => LinkSearch::None,
            None => LinkSearch::TooMany,
        })
    }
}

/// Returns the id of a file that has more than one name.
fn linked_id(found: &Metadata) -> Option<FileId> {
    let is_linked = found.is_file() && found.nlink() > 1;
    is_linked.then(|| FileId { device: found.dev(), inode: found.ino() })
}

/// Calls `visit` for the file at a place, or each file below it, until it returns false. Follows no links. Skips
/// folders that cannot be opened, which a command cannot open either. Returns false if it stopped before the end.
fn visit_files(
    place: &Path,
    left: &mut usize,
    visit: &mut dyn FnMut(&Path, &Metadata) -> bool,
) -> io::Result<bool> {
    let mut waiting = vec![place.to_owned()];
    while let Some(path) = waiting.pop() {
        let Some(less) = left.checked_sub(1) else { return Ok(false) };
        *left = less;
        let found = match fs::symlink_metadata(&path) {
            Err(error) if is_out_of_reach(&error) => continue,
            found => found?,
        };
        if !found.is_dir() {
            if !visit(&path, &found) {
                return Ok(false);
            }
            continue;
        }
        let entries = match fs::read_dir(&path) {
            Err(error) if is_out_of_reach(&error) => continue,
            entries => entries?,
        };
        for entry in entries.take(*left + 1) {
            waiting.push(entry?.path());
        }
    }
    Ok(true)
}

/// Returns true for what is gone meanwhile, or closed to this account.
fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}
