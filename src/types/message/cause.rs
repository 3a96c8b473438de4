//! The cause of a message: a person or a due task.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::types::address::SenderId;
use crate::types::message::Sender;
use crate::types::origin::TaskKind;

/// The person or due task that a message comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Person(Sender),
    /// A due job, on behalf of the person who asked for it.
    Job {
        job: i64,
        due: DateTime<Utc>,
        /// True if the job was missed at its due time.
        late: bool,
        /// True if the turn that created the job had read untrusted content.
        tainted: bool,
        sender: Sender,
        /// The output of the job's check.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        printed: Option<Printed>,
    },
    /// The heartbeat, on behalf of the owner.
    Heartbeat {
        /// True if some of its input was written by a turn that had read untrusted content.
        tainted: bool,
        sender: Sender,
    },
}

/// The output of a command, or the body of a webhook's call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    pub text: String,
    /// True if it may contain untrusted content.
    #[serde(rename = "foreign")]
    pub untrusted: bool,
    /// The webhook whose call has this body. None for the output of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
}

impl Cause {
    /// Returns the sender, or the person on whose behalf the message exists.
    pub fn sender(&self) -> &Sender {
        match self {
            Self::Person(sender) | Self::Job { sender, .. } | Self::Heartbeat { sender, .. } => {
                sender
            }
        }
    }

    pub fn sender_mut(&mut self) -> &mut Sender {
        match self {
            Self::Person(sender) | Self::Job { sender, .. } | Self::Heartbeat { sender, .. } => {
                sender
            }
        }
    }

    pub fn into_sender(self) -> Sender {
        match self {
            Self::Person(sender) | Self::Job { sender, .. } | Self::Heartbeat { sender, .. } => {
                sender
            }
        }
    }

    pub fn author(&self) -> MessageAuthor {
        match self {
            Self::Person(sender) => MessageAuthor::Person(sender.id.clone()),
            Self::Job { job, .. } => {
                MessageAuthor::Task { kind: TaskKind::Job, number: Some(*job) }
            }
            Self::Heartbeat { .. } => {
                MessageAuthor::Task { kind: TaskKind::Heartbeat, number: None }
            }
        }
    }
}

/// The speaker of a message. A job speaks for itself: its message does not count as its person's answer and is not
/// joined with their messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageAuthor {
    Person(SenderId),
    /// A due task. The heartbeat has no number, because all its runs share one voice.
    Task {
        kind: TaskKind,
        number: Option<i64>,
    },
}
