//! Why there is a message: somebody speaks, or something is due.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::types::message::{Sender, SenderId};

/// Why there is a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Person(Sender),
    /// A job that is due, on behalf of who asked for it.
    Job {
        job: i64,
        due: DateTime<Utc>,
        /// It was missed when it was due.
        late: bool,
        /// Who asked for it had read what strangers wrote.
        tainted: bool,
        sender: Sender,
        /// What its check has printed before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        printed: Option<Printed>,
    },
    /// The heartbeat, on behalf of the owner.
    Heartbeat {
        /// Some of what it is handed was written by who had read what strangers wrote.
        tainted: bool,
        sender: Sender,
    },
}

/// What a command has printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    pub text: String,
    /// Strangers may have written it.
    pub foreign: bool,
}

impl Cause {
    /// Who speaks, or on whose behalf there is a message.
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

    /// Whose voice it is: what a job says is no word of the person's for whom it is done, and is
    /// neither an answer of theirs nor joined with what they say.
    pub fn voice(&self) -> SenderId {
        match self {
            Self::Person(sender) => sender.id.clone(),
            Self::Job { job, .. } => format!("(job):{job}").into(),
            Self::Heartbeat { .. } => "(heartbeat)".into(),
        }
    }
}
