//! A new folder of untrusted files that another process than the daemon fills. Commands can change what lies around it
//! meanwhile, so it is held open. It gets its name when it is whole. Nothing here follows a link.

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt};
use rustix::fs::{FlockOperation, flock};

use super::free_place::free_folder;
use super::writes::{make_own, open_own, replace, sync};
use super::{FileError, WorkspacePath};

/// The ending of its name as long as files may be missing.
const PARTIAL: &str = ".partial";

/// A folder that was not there before. It is removed unless it is finished.
pub struct NewFolder {
    /// Locked, which tells it from one that was left behind.
    dir: Dir,
    within: Dir,
    path: WorkspacePath,
    is_finished: bool,
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.is_finished {
            self.within.remove_dir_all(self.partial_name()).ok();
        }
    }
}

impl NewFolder {
    /// Makes a folder beside the workspace, for this account alone. If its name is taken, it gets a number.
    pub fn make(home: &Path, path: &WorkspacePath) -> Result<Self, FileError> {
        let make = || -> io::Result<Self> {
            let home = Dir::open_ambient_dir(home, ambient_authority())?;
            let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
            let parent = free_folder(&home, &parent, None).unwrap_or(parent);
            let within = make_own(home, parent.as_str().split('/'))?;
            let mut number = 1;
            loop {
                let name = match number {
                    1 => path.name().to_owned(),
                    number => format!("{}-{number}", path.name()),
                };
                number += 1;
                if within.symlink_metadata(&name).is_ok() {
                    continue;
                }
                let partial = format!("{name}{PARTIAL}");
                remove_left_behind(&within, &partial);
                match within.create_dir_with(&partial, DirBuilder::new().mode(0o700)) {
                    Ok(()) => {
                        sync(&within)?;
                        let dir = open_own(&within, &partial)?;
                        flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
                        let path = parent.join(&name);
                        return Ok(Self { dir, within, path, is_finished: false });
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
        };
        make().map_err(|error| FileError::new(path, error))
    }

    /// Its path in the home, once it is finished.
    pub fn path(&self) -> &WorkspacePath {
        &self.path
    }

    fn partial_name(&self) -> String {
        format!("{}{PARTIAL}", self.path.name())
    }

    /// Gives the folder its name, as it is whole.
    pub fn finish(mut self) -> Result<(), FileError> {
        let finish = || -> io::Result<()> {
            let name = self.path.name();
            // A rename would replace an empty folder.
            if self.within.symlink_metadata(name).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            self.within.rename(self.partial_name(), &self.within, name)?;
            sync(&self.within)
        };
        finish().map_err(|error| FileError::new(&self.path, error))?;
        self.is_finished = true;
        Ok(())
    }

    /// Writes a file below it, whole and on the disk when this returns. Returns false if something else has its name.
    pub fn put(&self, below: &WorkspacePath, contents: &[u8]) -> Result<bool, FileError> {
        let put = || -> io::Result<bool> {
            let parent = below.parent();
            let names = parent.iter().flat_map(|parent| parent.as_str().split('/'));
            let folder = match make_own(self.dir.try_clone()?, names) {
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(false),
                folder => folder?,
            };
            if folder.symlink_metadata(below.name()).is_ok() {
                return Ok(false);
            }
            replace(&folder, below.name(), contents, None).map(|()| true)
        };
        put().map_err(|error| FileError::new(below, error))
    }
}

/// Removes the folder of a process that was killed. One that is being filled is locked.
fn remove_left_behind(within: &Dir, partial: &str) {
    let Ok(left) = open_own(within, partial) else { return };
    if flock(&left, FlockOperation::NonBlockingLockExclusive).is_ok() {
        within.remove_dir_all(partial).ok();
    }
}
