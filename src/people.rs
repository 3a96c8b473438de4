//! Who speaks, and what they may do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a person may do; each role may do all that those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Guest,
    User,
    Admin,
    Owner,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guest => "guest",
            Self::User => "user",
            Self::Admin => "admin",
            Self::Owner => "owner",
        })
    }
}

/// Who is let in on a channel, from its config section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Platform user ids with role owner.
    pub owners: Vec<String>,
    /// Platform user ids with role user; `*` lets everyone in, as guests.
    pub allow: Vec<String>,
    pub groups: Groups,
    /// Whether a stranger's private message gets a code that lets the owner let them in.
    pub pairing: bool,
}

impl Default for Access {
    fn default() -> Self {
        Self { owners: Vec::new(), allow: Vec::new(), groups: Groups::default(), pairing: true }
    }
}

/// When the bot answers in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    Off,
    /// On a mention of it or a reply to it.
    #[default]
    Mention,
    Always,
}
