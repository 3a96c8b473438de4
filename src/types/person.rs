//! A person, who may have several accounts, and the owner of a folder.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::message::{ChannelName, SenderId};

/// A person. The id is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersonId(pub i64);

/// The written form: `p5`.
impl fmt::Display for PersonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl PersonId {
    /// Parses `p5`.
    pub fn parse(text: &str) -> Option<Self> {
        text.strip_prefix(['p', 'P'])?.parse().ok().map(Self)
    }
}

/// The owner of a folder of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderOwner {
    Person(PersonId),
    /// An account that belongs to no person yet, because no message of it was accepted.
    Account(ChannelName, SenderId),
}
