//! Free names in the untrusted folders. Commands can put anything there, also under the names that the program uses, so a
//! name that is taken by something else than a folder gets a number.

use std::io;

use cap_std::fs::Dir;
use rustix::fs::{Access, AtFlags, accessat};

use super::writes::{is_folder, open_own};
use super::{Folder, Workspace, WorkspacePath};

/// Maximum number behind a name.
pub(super) const NUMBER_MAX: usize = 99;

impl Workspace {
    /// Returns the path at which a new file can be made: `path`, or one with numbers behind the names of folders.
    /// In a workspace, nobody else writes: there it is always `path`.
    pub fn free_place(&self, path: &WorkspacePath) -> WorkspacePath {
        if path.folder() == Folder::Workspace {
            return path.clone();
        }
        let free = path.parent().and_then(|parent| {
            let folder = free_folder(self.base(path), &parent, Some(path.name()))?;
            Some(folder.join(path.name()))
        });
        free.unwrap_or_else(|| path.clone())
    }
}

/// Returns the path of a folder beside the workspace that is there or can be made, and in which no folder has the name of
/// `file`. None if it cannot be found.
pub(super) fn free_folder(
    base: &Dir,
    path: &WorkspacePath,
    file: Option<&str>,
) -> Option<WorkspacePath> {
    let own = path.own_folder()?;
    // Commands cannot change the names of these.
    let mut within = base.try_clone();
    for name in own.as_str().split('/') {
        within = within.and_then(|folder| open_own(&folder, name));
    }
    let mut free = own.clone();
    let below = path.below(&own);
    let names = below.as_ref().map(|below| below.as_str().split('/'));
    let mut names = names.into_iter().flatten().peekable();
    while let Some(name) = names.next() {
        let file = file.filter(|_| names.peek().is_none());
        let Ok(folder) = &within else {
            free = free.join(name);
            continue;
        };
        let mut numbered = (1..=NUMBER_MAX).map(|number| match number {
            1 => name.to_owned(),
            // No folder that a person names after a day looks like this.
            number => format!("{name}_{number}"),
        });
        let name =
            numbered.find(|name| is_usable(folder, name, file)).unwrap_or_else(|| name.to_owned());
        within = open_own(folder, &name);
        free = free.join(&name);
    }
    Some(free)
}

/// Returns true if a folder is there, or if nothing has its name.
fn is_usable(within: &Dir, name: &str, file: Option<&str>) -> bool {
    match open_own(within, name) {
        Ok(folder) => {
            let access = Access::WRITE_OK | Access::EXEC_OK;
            accessat(&folder, ".", access, AtFlags::empty()).is_ok()
                && !file.is_some_and(|file| is_folder(&folder, file))
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
