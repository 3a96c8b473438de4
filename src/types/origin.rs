//! The origin of a turn: a conversation with people at an address, or a background task. Sessions,
//! waiting rows and turns belong to an origin. A task's own row has the address for its result.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::address::{Address, ChannelName};
use crate::types::words::words;

/// The kinds of background tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Work that a conversation has delegated to another session.
    Subagent,
    /// A run of a job in a session of its own.
    Job,
    /// A heartbeat run: a look at the owner's HEARTBEAT.md.
    Heartbeat,
}

words!(TaskKind { Subagent = "subagent", Job = "job", Heartbeat = "heartbeat" });

impl TaskKind {
    /// Returns true if such a task starts without a person's request. It waits while the daemon is in safe mode, and uses
    /// only the background's share of a budget.
    pub const fn starts_without_request(self) -> bool {
        match self {
            Self::Job | Self::Heartbeat => true,
            Self::Subagent => false,
        }
    }
}

/// A background task. The number is the visible one: of a subagent, of a job (not of its run), of a
/// heartbeat run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    pub kind: TaskKind,
    pub number: i64,
}

impl TaskId {
    pub fn new(kind: TaskKind, number: i64) -> Self {
        Self { kind, number }
    }

    /// Returns the task as an origin. `known_on` is the channel on which its person is known.
    pub fn origin(self, known_on: &ChannelName) -> Origin {
        Origin::Task { task: self, known_on: known_on.clone() }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.number)
    }
}

/// The origin of a turn: a chat or a background task. In JSON a chat is its address alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Origin {
    Chat(Address),
    /// `known_on` is the channel on which the task's person is known. It is stored so that the channel and the
    /// person's role can be checked without reading the task.
    Task {
        task: TaskId,
        known_on: ChannelName,
    },
}

impl Origin {
    /// Returns the channel on which its people are known.
    pub fn channel(&self) -> &ChannelName {
        match self {
            Self::Chat(address) => &address.channel,
            Self::Task { known_on, .. } => known_on,
        }
    }

    /// Returns the address of a conversation with people. None for a task.
    pub fn chat(&self) -> Option<&Address> {
        match self {
            Self::Chat(address) => Some(address),
            Self::Task { .. } => None,
        }
    }

    /// Returns the task. None for a conversation with people.
    pub fn task(&self) -> Option<TaskId> {
        match self {
            Self::Chat(_) => None,
            Self::Task { task, .. } => Some(*task),
        }
    }
}

impl From<Address> for Origin {
    fn from(address: Address) -> Self {
        Self::Chat(address)
    }
}

impl From<&Address> for Origin {
    fn from(address: &Address) -> Self {
        Self::Chat(address.clone())
    }
}

impl From<&Self> for Origin {
    fn from(origin: &Self) -> Self {
        origin.clone()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chat(address) => address.fmt(f),
            Self::Task { task, .. } => task.fmt(f),
        }
    }
}
