//! The folder in which a command runs, and its `HOME`. Programs keep settings and caches there. In a trusted folder these
//! lie in a folder of their own, so that they are not among the files of the person.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use super::{FileScope, Workspace, WorkspacePath};

/// The `HOME` of commands in a workspace.
pub(super) const HOME: &str = ".home";

/// Settings of programs that people put into the workspace as long as it was the `HOME`. A workspace with one of them and
/// without `.home` stays the `HOME`.
const FORMER_SETTINGS: [&str; 16] = [
    ".aws",
    ".bundle",
    ".cargo",
    ".config",
    ".docker",
    ".gem",
    ".gitconfig",
    ".gnupg",
    ".local",
    ".m2",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".rustup",
    ".ssh",
    ".vimrc",
];

/// The folders of a command on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPlace {
    /// The folder that it may change, and in which it begins.
    pub folder: PathBuf,
    /// Its `HOME`: the folder itself, or one in it.
    pub home: PathBuf,
}

impl Workspace {
    /// Returns the folder in which commands run, made if it is missing: the trusted one, or the one for untrusted
    /// files.
    pub fn command_folder(
        &self,
        scope: &FileScope,
        is_untrusted: bool,
    ) -> anyhow::Result<CommandPlace> {
        let folder = if is_untrusted { Some(scope.downloads()) } else { scope.root() };
        let folder = match folder {
            None => self.root().canonicalize()?,
            Some(folder) => {
                self.make_folder(&folder)?;
                self.on_disk(&folder)?
            }
        };
        let home = match scope {
            FileScope::Owner | FileScope::Person { .. } if !is_untrusted => {
                self.own_home(scope, &folder)
            }
            FileScope::Owner | FileScope::Person { .. } | FileScope::Group { .. } => None,
        };
        Ok(CommandPlace { home: home.unwrap_or_else(|| folder.clone()), folder })
    }

    /// Returns `.home` in the workspace of a scope, made if it is missing. None if the workspace itself is the `HOME`.
    fn own_home(&self, scope: &FileScope, folder: &Path) -> Option<PathBuf> {
        let home = folder.join(HOME);
        match fs::symlink_metadata(&home) {
            // A link could lead anywhere.
            Ok(found) => return found.is_dir().then_some(home),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return None,
            Err(_) => {}
        }
        if FORMER_SETTINGS.iter().any(|name| fs::symlink_metadata(folder.join(name)).is_ok()) {
            return None;
        }
        let made = self.make_folder(&scope.path(&WorkspacePath::own(HOME)));
        let made = made.map_err(anyhow::Error::from).and_then(|()| Ok(give(&home, folder)?));
        match made {
            Ok(()) => Some(home),
            Err(error) => {
                tracing::warn!(%error, "Cannot make the home folder of commands");
                None
            }
        }
    }
}

/// Gives the home to the owner of its folder, whose account its commands have if the daemon is root.
fn give(home: &Path, folder: &Path) -> io::Result<()> {
    let owner = fs::metadata(folder)?;
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let home = File::options().read(true).custom_flags(flags).open(home)?;
    match home.metadata()?.uid() == owner.uid() {
        true => Ok(()),
        false => fchown(&home, Some(owner.uid()), Some(owner.gid())),
    }
}
