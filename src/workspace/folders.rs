//! The folders of the home in which files lie, and who can reach them. They are siblings on disk, so that the
//! kernel can keep them apart: `workspace/` and `downloads/` of the owner, `shared/` of everybody,
//! `people/p<ID>/{workspace,downloads}/` of each other person, `groups/g<ID>/` of each group. Tools show them as
//! one tree, in which only the workspace's files have no folder before them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Audience, WorkspacePath};
use crate::types::hex::hex;
use crate::types::message::{ChannelName, ChatId, SenderId};
use crate::types::person::{FolderOwner, PersonId};

/// The owner's own untrusted folder: attachments, saved pages, results of commands that saw untrusted data.
pub const DOWNLOADS: &str = "downloads";

/// The untrusted folder of all persons.
pub const SHARED: &str = "shared";

/// The folders of groups.
pub const GROUPS: &str = "groups";

/// The folders of other persons.
pub const PEOPLE: &str = "people";

/// The folders beside the workspace. A path that begins with one of them lies there.
pub const FOLDERS_BESIDE: [&str; 4] = [DOWNLOADS, SHARED, GROUPS, PEOPLE];

/// The workspace in a person's folder.
pub const WORKSPACE: &str = "workspace";

/// The folder of long outputs of commands, with a folder for each month.
pub const OUTPUTS: &str = "outputs";

/// Hex digits that name a group's folder, and that of an account which is nobody's: 48 bits.
const ID_DIGITS: usize = 12;

/// The kinds of folders, as decisions know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Folder {
    /// A person's trusted folder.
    Workspace,
    /// A person's untrusted folder.
    Downloads,
    /// The untrusted folder of all persons.
    Shared,
    /// A group's untrusted folder.
    Group,
}

impl Folder {
    pub const ALL: [Self; 4] = [Self::Workspace, Self::Downloads, Self::Shared, Self::Group];
}

/// The files that a turn can reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileScope {
    /// The owner in a private chat: the workspace, the downloads, shared and the groups' folders.
    Owner,
    /// Another person in a private chat: the folder of that person, and shared.
    Person { own: WorkspacePath },
    /// Anybody in a group: the folder of the group, and shared.
    Group { own: WorkspacePath },
}

impl FileScope {
    /// The files of another person than the owner.
    pub fn of_person(owner: &FolderOwner) -> Self {
        let own = match owner {
            FolderOwner::Person(person) => person_folder(*person),
            FolderOwner::Account(channel, sender) => account_folder(channel, sender),
        };
        Self::Person { own }
    }

    /// The files of a group.
    pub fn of_group(channel: &ChannelName, chat: &ChatId) -> Self {
        Self::Group { own: below(GROUPS, &format!("g{}", digits(channel.as_str(), chat.as_str()))) }
    }

    pub fn audience(&self) -> Audience {
        match self {
            Self::Owner => Audience::Owner,
            Self::Person { .. } | Self::Group { .. } => Audience::Others,
        }
    }

    /// The path in the tree of all folders for a path that a tool was given.
    pub fn path(&self, given: &WorkspacePath) -> WorkspacePath {
        let (first, _) = given.split_first();
        let is_elsewhere =
            FOLDERS_BESIDE.contains(&first) && first != DOWNLOADS || given.is_received();
        match self {
            Self::Owner => given.clone(),
            Self::Person { .. } | Self::Group { .. } if is_elsewhere => given.clone(),
            Self::Person { own } if first == DOWNLOADS => own.join(given.as_str()),
            Self::Person { own } => own.join(WORKSPACE).join(given.as_str()),
            Self::Group { own } => own.join(given.as_str()),
        }
    }

    /// The folder that tools show as the root of the tree. None for the workspace of the owner.
    pub fn root(&self) -> Option<WorkspacePath> {
        match self {
            Self::Owner => None,
            Self::Person { own } => Some(own.join(WORKSPACE)),
            Self::Group { own } => Some(own.clone()),
        }
    }

    /// Returns a path of the tree as it is called below the root that tools show, if it lies there.
    pub fn below_root(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        match self.root() {
            None => Some(path.clone()),
            Some(root) => path.below(&root),
        }
    }

    /// The folder for untrusted files.
    pub fn downloads(&self) -> WorkspacePath {
        match self {
            Self::Owner => WorkspacePath::own(DOWNLOADS),
            Self::Person { own } => own.join(DOWNLOADS),
            Self::Group { own } => own.clone(),
        }
    }

    /// The folder for the long outputs of commands.
    pub fn outputs(&self, is_untrusted: bool) -> WorkspacePath {
        match (is_untrusted, self.root()) {
            (true, _) => self.downloads().join(OUTPUTS),
            (false, Some(root)) => root.join(OUTPUTS),
            (false, None) => WorkspacePath::own(OUTPUTS),
        }
    }

    /// Returns true if files at a path of the tree can be reached.
    pub fn reaches(&self, path: &WorkspacePath) -> bool {
        match self {
            Self::Owner => path.split_first().0 != PEOPLE,
            Self::Person { own } | Self::Group { own } => {
                path.split_first().0 == SHARED || path.is_within(own)
            }
        }
    }

    /// Returns the folder in which a file lies that a turn of this scope writes at a given path.
    pub fn folder(&self, given: &WorkspacePath) -> Folder {
        self.path(given).folder()
    }
}

/// The folder of a person: `people/p5`. Its name is never used again.
pub(super) fn person_folder(person: PersonId) -> WorkspacePath {
    below(PEOPLE, &person.to_string())
}

/// The folder of an account that is nobody's. Former versions named all folders of persons so.
pub(super) fn account_folder(channel: &ChannelName, sender: &SenderId) -> WorkspacePath {
    below(PEOPLE, &format!("p{}", digits(channel.as_str(), sender.as_str())))
}

/// Returns true for the name of a folder of an account, which no person's id is as long as.
pub(super) fn is_of_account(name: &str) -> bool {
    let digits = name.strip_prefix('p').unwrap_or_default();
    digits.len() == ID_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn below(folder: &'static str, name: &str) -> WorkspacePath {
    WorkspacePath::own(folder).join(name)
}

/// Digits that differ for each pair of ids.
fn digits(channel: &str, id: &str) -> String {
    let digest = Sha256::digest(format!("{channel}\0{id}"));
    hex(&digest)[..ID_DIGITS].to_owned()
}
