//! The roles whose commands see the folders of `[exec] read` and `write`. Pure. Not here: the trust in these folders
//! (`tools::shell::more_paths`).

use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;
use crate::types::message::ChatKind;
use crate::types::role::Role;

/// A path that the commands of a role, and of those above it, see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleFolder {
    pub path: PathBuf,
    pub role: Role,
}

/// The paths of a sandbox's `read` and `write` with their roles. A path of the sandbox that lies within none of them is
/// visible to all commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderRoles {
    pub read: Vec<RoleFolder>,
    pub write: Vec<RoleFolder>,
}

impl FolderRoles {
    /// Returns the sandbox with the paths that commands for this role see.
    pub fn visible(&self, sandbox: &Sandbox, role: Role) -> Sandbox {
        let keep = |paths: &[PathBuf], folders: &[RoleFolder]| {
            let visible = paths.iter().filter(|path| role_of(folders, path) <= role);
            visible.cloned().collect()
        };
        let (read, write) = (keep(&sandbox.read, &self.read), keep(&sandbox.write, &self.write));
        Sandbox { read, write, ..sandbox.clone() }
    }
}

/// Returns the role for which a person's commands see folders. Everybody in a group reads what is printed there, so its
/// commands see only what those of the lowest role do, which may run commands.
pub fn role_for_folders(role: Role, chat_kind: ChatKind, lowest: Role) -> Role {
    match chat_kind {
        ChatKind::Private => role,
        ChatKind::Group => lowest,
    }
}

/// Returns the lowest role whose commands see a path.
fn role_of(folders: &[RoleFolder], path: &Path) -> Role {
    let around = folders.iter().filter(|folder| path.starts_with(&folder.path));
    around.map(|folder| folder.role).min().unwrap_or(Role::Guest)
}
