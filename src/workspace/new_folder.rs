//! A new folder of untrusted files that another process than the daemon fills. Commands can change what lies around it
//! meanwhile, so it is held open. Nothing here follows a link.

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt};

use super::free_place::free_folder;
use super::writes::{make_own, open_own, replace, sync};
use super::{FileError, WorkspacePath};

/// A folder that was not there before.
pub struct NewFolder {
    dir: Dir,
    path: WorkspacePath,
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
                match within.create_dir_with(&name, DirBuilder::new().mode(0o700)) {
                    Ok(()) => {
                        sync(&within)?;
                        let dir = open_own(&within, &name)?;
                        return Ok(Self { dir, path: parent.join(&name) });
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                    Err(error) => return Err(error),
                }
            }
        };
        make().map_err(|error| FileError::new(path, error))
    }

    /// Its path in the home.
    pub fn path(&self) -> &WorkspacePath {
        &self.path
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
