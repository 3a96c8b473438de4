//! The facts about a tool's call that a decision needs: its act, and its reach.

use crate::people::Role;
use crate::types::message::{Address, ChatKind};
use crate::workspace::Folder;

/// On what terms a tool is called; the part of a [`ToolSpec`] that is not for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolTerms {
    pub role: Role,
    pub kind: ToolKind,
    pub retries: bool,
}

/// The kind of a tool: the things that a call touches, and so the meaning of a crash in its middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Looks only; after a crash it runs again.
    Reads,
    /// Changes a workspace file through the [`FileChange`] that it returns.
    Writes,
    /// Changes our own store through the [`Effect`]s that it returns, with its outcome.
    Queues,
    /// Acts outside, where nothing can be asked whether it happened: written down before it begins.
    /// After a crash it runs again if twice is as once, and is left to the model otherwise.
    Acts { idempotent: bool },
}

/// The reach of a call, which decides whether it may be made after untrusted content was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It stays within the conversation and the workspace.
    Here,
    /// It acts where nothing takes it back, or speaks to others.
    Outside,
    /// It lets each run of a job do more than others may: its command has the network or paths, or its prompt makes calls
    /// unasked.
    JobNeeds,
    /// It sends a message to another chat.
    Tell(Telling),
    /// It changes a file in this folder.
    File(Folder),
    /// It runs a command that sees these folders.
    Command(CommandAccess),
    /// It changes what the bot goes by.
    Rules,
    /// It changes what later conversations are told as true.
    Memory,
    /// It asks for this address, which tells its server whatever stands in it.
    Url(String),
}

/// A message to another chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    pub to: Address,
    /// None if more than a text is sent: files or buttons.
    pub text: Option<String>,
}

/// The data that a command sees. The kernel lets it have private data or an outlet, never both unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandAccess {
    /// The workspace, and no network.
    Workspace,
    /// The downloads, and no network.
    Downloads,
    /// The downloads and named paths of the workspace, which it can read, and no network.
    Named,
    /// The downloads alone, with the network.
    Network,
    /// As [`Self::Network`], where the config has each such call asked about.
    AskedNetwork,
    /// The network and paths of the workspace, which it can change.
    Both,
}

impl CommandAccess {
    pub const ALL: [Self; 6] = [
        Self::Workspace,
        Self::Downloads,
        Self::Named,
        Self::Network,
        Self::AskedNetwork,
        Self::Both,
    ];
}

impl Reach {
    /// The reach of a call in a place: in a group, a person's folders are the group's, and nothing was said in
    /// private.
    pub fn within(self, chat_kind: ChatKind) -> Self {
        match (self, chat_kind) {
            (Self::File(Folder::Workspace | Folder::Downloads), ChatKind::Group) => {
                Self::File(Folder::Group)
            }
            (Self::Command(CommandAccess::Workspace | CommandAccess::Named), ChatKind::Group) => {
                Self::Command(CommandAccess::Downloads)
            }
            (Self::Tell(_), ChatKind::Group) => Self::Outside,
            (reach, _) => reach,
        }
    }
}

impl ToolKind {
    /// Returns the reach of calls of this kind, where the tool does not say more.
    pub fn reach(self) -> Reach {
        match self {
            Self::Acts { idempotent: false } => Reach::Outside,
            Self::Acts { idempotent: true } | Self::Reads | Self::Writes | Self::Queues => {
                Reach::Here
            }
        }
    }
}

/// In a group nobody has the tools that only the owner has: what others said there would end in the
/// owner's memory, and the tools, which come first in the prompt, would change with each speaker.
pub fn tool_role(role: Role, chat_kind: ChatKind) -> Role {
    match chat_kind {
        ChatKind::Private => role,
        ChatKind::Group => role.min(Role::Admin),
    }
}
