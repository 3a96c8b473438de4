//! The files of a call about which people are asked, as they were then. An approval covers the call only with these: other
//! contents are a change, or a message, that nobody has seen.

use serde::{Deserialize, Serialize};

/// The files that a call would change or send, or the paths that its command would see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallFiles {
    Changes(ChangedFile),
    /// The call only adds text at the end of the file at this path in the tree, whatever the file contains.
    Adds {
        path: String,
    },
    Sends(Vec<SentFile>),
    /// A command with these paths, each of which the call names.
    Sees(Vec<SeenPath>),
}

/// A file that a call would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// The path in the tree, without links.
    pub path: String,
    /// The hash of the contents that would be replaced. None: there is no file.
    pub before: Option<String>,
}

/// A file that a call would send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFile {
    /// The path in the tree, without links.
    pub path: String,
    /// In bytes.
    pub size: u64,
    pub hash: String,
}

/// A path that a command would see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPath {
    /// The path in the tree as the call names it, or an absolute one of the config.
    pub path: String,
    /// The same without links. Equal to `path` if no link is on its way.
    pub leads_to: String,
}

impl CallFiles {
    /// Returns the paths that a command would see by way of links.
    pub fn links(&self) -> impl Iterator<Item = &SeenPath> {
        let seen: &[SeenPath] = match self {
            Self::Sees(paths) => paths,
            Self::Changes(_) | Self::Adds { .. } | Self::Sends(_) => &[],
        };
        seen.iter().filter(|seen| seen.path != seen.leads_to)
    }

    /// Returns the files that would be sent.
    pub fn sent(&self) -> &[SentFile] {
        match self {
            Self::Changes(_) | Self::Adds { .. } | Self::Sees(_) => &[],
            Self::Sends(files) => files,
        }
    }

    /// Returns the path of the file that would be changed.
    pub fn changed_path(&self) -> Option<&str> {
        match self {
            Self::Changes(ChangedFile { path, .. }) | Self::Adds { path } => Some(path),
            Self::Sends(_) | Self::Sees(_) => None,
        }
    }
}
