//! The person, the chat and the time of a call: all that the checks of its arguments need. The disk and the network are
//! no part of it, so that `peacrab explain` makes the same checks without a daemon.

use chrono_tz::Tz;

use crate::memory::file_scope;
use crate::people::Role;
use crate::types::message::{Address, ChannelName, ChatKind};
use crate::types::person::FolderOwner;
use crate::workspace::{FileError, FileScope, WorkspacePath};

/// The circumstances of a call that decide if it can begin.
#[derive(Clone, Copy, Debug)]
pub struct CallPlace<'a> {
    /// The role that counts for tools in this chat.
    pub role: Role,
    pub chat_kind: ChatKind,
    pub at: &'a Address,
    /// The owner of the folder in a private chat.
    pub owner: &'a FolderOwner,
    /// Files that arrived at this address.
    pub arrived_here: &'a [String],
    /// The existing channels. None if they are not known.
    pub channels: Option<&'a [ChannelName]>,
    pub zone: Tz,
}

impl CallPlace<'_> {
    /// Returns the files that the call can reach.
    pub fn scope(&self) -> FileScope {
        file_scope(self.role, self.chat_kind, self.at, self.owner)
    }

    /// Returns an error for a path that the call cannot reach, whatever lies there. Otherwise its path in the tree.
    pub(super) fn reached(&self, given: &WorkspacePath) -> Result<WorkspacePath, FileError> {
        let scope = self.scope();
        let path = scope.path(given);
        match scope.reaches(&path) {
            true => Ok(path),
            false => Err(FileError::Private(path)),
        }
    }
}
