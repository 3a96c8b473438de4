//! The properties of a tool call on which a decision depends: the kind of its tool, and its reach.

use crate::people::Role;
use crate::types::message::{Address, ChatKind};
use crate::workspace::Folder;

/// The terms of a tool: least role, kind and retries. The part of a [`ToolSpec`] that is not for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolTerms {
    pub role: Role,
    pub kind: ToolKind,
    pub retries: bool,
}

/// The kind of a tool: the things that a call changes, and so the consequence of a crash during it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Looks only; after a crash it runs again.
    Reads,
    /// Changes a workspace file through the [`FileChange`] that it returns.
    Writes,
    /// Changes our own store through the [`Effect`]s that it returns, with its outcome.
    Queues,
    /// Acts outside, where nobody can find out later if it happened: it is stored before it begins.
    /// After a crash it runs again if it is idempotent. Otherwise the model decides.
    Acts { idempotent: bool },
}

/// The reach of a call, which decides whether it may be made after untrusted content was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It stays within the conversation and the workspace.
    Here,
    /// Its action cannot be undone, or it sends something to others.
    Outside,
    /// It gives a job more rights than other jobs have: its command has the network or paths, or its prompt makes calls
    /// without approval.
    JobNeeds,
    /// It sends a message to another chat.
    Tell(CrossChatMessage),
    /// It changes a file in this folder.
    File(Folder),
    /// It runs a command that sees these folders.
    Command(CommandAccess),
    /// It writes to a command that runs already, whose folders were decided when it began.
    RunningCommand,
    /// It changes instructions or skills.
    Instructions,
    /// It changes the memory, which later conversations trust.
    Memory,
    /// It requests this URL, which sends the URL's content to the server.
    Url(String),
}

/// A message to another chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossChatMessage {
    pub to: Address,
    /// None if more than a text is sent: files or buttons.
    pub text: Option<String>,
}

/// The access of a command. Without approval, it has private data or an outlet, never both. The kernel enforces this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandAccess {
    /// The workspace, and no network.
    Workspace,
    /// The downloads, and no network.
    Downloads,
    /// The downloads, and named paths of the workspace, which it can read. No network.
    Named,
    /// The downloads, and folders that others read, too, which it can change: `shared/`, those of groups and of `[exec]
    /// write`. No network.
    Shared,
    /// The downloads alone, with the network.
    Network,
    /// As [`Self::Network`], where the config requires approval of each such call.
    AskedNetwork,
    /// The downloads, named paths of the workspace, which it can read, and folders as those of [`Self::Shared`], which it
    /// can change. No network.
    NamedAndShared,
    /// The network, and named paths of any kind, which it can change.
    Both,
}

impl CommandAccess {
    pub const ALL: [Self; 8] = [
        Self::Workspace,
        Self::Downloads,
        Self::Named,
        Self::Shared,
        Self::Network,
        Self::AskedNetwork,
        Self::NamedAndShared,
        Self::Both,
    ];
}

impl Reach {
    /// Returns the reach of a call in a chat of this kind. In a group, the folders are the group's, and nothing was
    /// said in private.
    pub fn within(self, chat_kind: ChatKind) -> Self {
        match (self, chat_kind) {
            (Self::File(Folder::Workspace | Folder::Downloads), ChatKind::Group) => {
                Self::File(Folder::Group)
            }
            (Self::Command(CommandAccess::Workspace | CommandAccess::Named), ChatKind::Group) => {
                Self::Command(CommandAccess::Downloads)
            }
            (Self::Command(CommandAccess::NamedAndShared), ChatKind::Group) => {
                Self::Command(CommandAccess::Shared)
            }
            // Its members read there, whom the private turn does not speak with.
            (Self::File(Folder::Group), ChatKind::Private) => Self::File(Folder::Shared),
            (Self::Tell(_), ChatKind::Group) => Self::Outside,
            (reach, _) => reach,
        }
    }
}

impl ToolKind {
    /// Returns the default reach of calls of this kind. A tool can return a more exact one.
    pub fn reach(self) -> Reach {
        match self {
            Self::Acts { idempotent: false } => Reach::Outside,
            Self::Acts { idempotent: true } | Self::Reads | Self::Writes | Self::Queues => {
                Reach::Here
            }
        }
    }
}

/// Returns the role that counts for tools. In a group it is admin at most: otherwise content of others could
/// enter the owner's memory, and the tools, which come first in the prompt, would change with each speaker.
pub fn tool_role(role: Role, chat_kind: ChatKind) -> Role {
    match chat_kind {
        ChatKind::Private => role,
        ChatKind::Group => role.min(Role::Admin),
    }
}
