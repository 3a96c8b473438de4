//! The paths that a command names beside its own folder: which of them it may see, and which it may change.

use std::path::PathBuf;

use super::{FileError, FileScope, Folder, Workspace, WorkspacePath};

/// Maximum number of paths that a command can name.
pub const NAMED_PATHS_MAX: usize = 16;

/// The named paths, as they lie on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedPaths {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

/// The reason why a command cannot have a path.
#[derive(Debug, thiserror::Error)]
pub enum NamedPathError {
    #[error("commands like this one never see `{0}`")]
    Hidden(WorkspacePath),
    #[error("commands with the network do not change instructions (`{0}`)")]
    Instructions(WorkspacePath),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Workspace {
    /// Finds the paths that a command names: those in untrusted folders can be changed, those of the workspace can be
    /// read, or changed if `changes_own`. Memory, notes and `USER.md` are never seen.
    pub fn named_paths<'a>(
        &self,
        scope: &FileScope,
        named: impl Iterator<Item = &'a WorkspacePath>,
        changes_own: bool,
    ) -> Result<NamedPaths, NamedPathError> {
        let mut paths = NamedPaths::default();
        for given in named {
            let path = scope.path(given);
            if path.folder() == Folder::Shared {
                self.make_folder(&WorkspacePath::shared())?;
            }
            let is_hidden = !path.is_beside() && path.is_private() && !path.is_sent();
            if !scope.reaches(&path) || is_hidden {
                return Err(NamedPathError::Hidden(given.clone()));
            }
            let changes = path.folder() != Folder::Workspace || changes_own;
            if changes && path.is_shown_changed() {
                return Err(NamedPathError::Instructions(given.clone()));
            }
            let found = self.place_of(&path).ok_or_else(|| FileError::Missing(given.clone()))?;
            if changes { paths.write.push(found) } else { paths.read.push(found) }
        }
        Ok(paths)
    }
}
