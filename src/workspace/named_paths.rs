//! The paths that a command names beside its own folder: which of them it may see, and which it may change.

use std::path::{Path, PathBuf};

use super::private_links::{LinkSearch, PrivateLinks};
use super::{FileError, FileScope, Folder, Workspace, WorkspacePath};

/// Maximum number of paths that a command can name.
pub const NAMED_PATHS_MAX: usize = 16;

/// The named paths, as they lie on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedPaths {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// The paths of the tree to which all of them lead, without links, in the order of the names.
    pub leads_to: Vec<WorkspacePath>,
}

/// The reason why a command cannot have a path.
#[derive(Debug, thiserror::Error)]
pub enum NamedPathError {
    #[error("commands like this one never see `{0}`")]
    Hidden(WorkspacePath),
    #[error("commands with the network do not change instructions (`{0}`)")]
    Instructions(WorkspacePath),
    #[error(
        "`{0}` is another name (hard link) of a private file, which commands like this one never see: delete that name, \
         or name other paths"
    )]
    PrivateLink(String),
    #[error("`{0}` has too many files to look for other names of private ones: name a part of it")]
    TooManyFiles(WorkspacePath),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Workspace {
    /// Finds the paths that a command names: those in untrusted folders can be changed, those of the workspace can be
    /// read, or changed if `changes_own`. Memory, notes and `USER.md` of the person are never seen, by whatever link: a
    /// path that holds another name (hard link) of them is refused, and so are the downloads, if the command sees them
    /// as its folder.
    pub fn named_paths<'a>(
        &self,
        scope: &FileScope,
        downloads: Option<&Path>,
        named: impl Iterator<Item = &'a WorkspacePath>,
        changes_own: bool,
    ) -> Result<NamedPaths, NamedPathError> {
        let mut paths = NamedPaths::default();
        // The private files are walked only once.
        let memory = || WorkspacePath::own("memory");
        let links = self.private_links(scope).map_err(|error| FileError::new(&memory(), error))?;
        if let Some(folder) = downloads {
            check_links(&links, &scope.downloads(), folder)?;
        }
        for given in named {
            let named = scope.check_named(given, changes_own)?;
            if named.folder() == Folder::Shared {
                self.make_folder(&WorkspacePath::shared())?;
            }
            let hidden = || NamedPathError::Hidden(given.clone());
            let path = self.resolve_for(&named, scope).map_err(|error| match error {
                FileError::Private(_) => hidden(),
                error => error.into(),
            })?;
            // What a call names is what it was judged by: a link in the downloads is no way into the workspace.
            if path.folder() != named.folder() || is_hidden(scope, &path) {
                return Err(hidden());
            }
            if is_instruction(scope, &path, changes_own) {
                return Err(NamedPathError::Instructions(given.clone()));
            }
            let changes = path.folder() != Folder::Workspace || changes_own;
            let found = self.disk_path(&path).ok_or_else(|| FileError::Missing(given.clone()))?;
            check_links(&links, given, &found)?;
            if changes {
                paths.write.push(found)
            } else {
                paths.read.push(found)
            }
            paths.leads_to.push(path);
        }
        Ok(paths)
    }
}

/// Returns an error if another name of a private file lies at a path, or below it.
fn check_links(
    links: &PrivateLinks,
    given: &WorkspacePath,
    found: &Path,
) -> Result<(), NamedPathError> {
    match links.find_below(found).map_err(|error| FileError::new(given, error))? {
        LinkSearch::None => Ok(()),
        LinkSearch::TooMany => Err(NamedPathError::TooManyFiles(given.clone())),
        LinkSearch::Found(link) => {
            let below = link.strip_prefix(found).unwrap_or(Path::new(""));
            let named = Path::new(given.as_str()).join(below);
            let named = named.to_string_lossy().trim_end_matches('/').to_owned();
            Err(NamedPathError::PrivateLink(named))
        }
    }
}

impl FileScope {
    /// Checks a path that a command names as it is written, without the disk. Returns it as a path of the tree.
    pub fn check_named(
        &self,
        given: &WorkspacePath,
        changes_own: bool,
    ) -> Result<WorkspacePath, NamedPathError> {
        let named = self.path(given);
        if !self.reaches(&named) || is_hidden(self, &named) {
            return Err(NamedPathError::Hidden(given.clone()));
        }
        match is_instruction(self, &named, changes_own) {
            true => Err(NamedPathError::Instructions(given.clone())),
            false => Ok(named),
        }
    }
}

/// Returns true if a path of the tree is an instruction that the command could change.
fn is_instruction(scope: &FileScope, path: &WorkspacePath, changes_own: bool) -> bool {
    let changes = path.folder() != Folder::Workspace || changes_own;
    changes && scope.below_root(path).is_some_and(|own| own.is_change_reported())
}

/// Returns true if a path of the tree belongs to what no command sees of a workspace.
fn is_hidden(scope: &FileScope, path: &WorkspacePath) -> bool {
    let own = scope.below_root(path).filter(|own| !own.is_beside_workspace());
    own.is_some_and(|own| own.is_private() && !own.is_received())
}
