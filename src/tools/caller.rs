//! Which tools are for whom, whoever asks.

use super::{delegate, finish, schedule};
use crate::provider::ASK_QUESTION;
use crate::provider::ToolSchema;
use crate::types::session::Finish;

/// What a turn works for that calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Conversation(Finish),
    Subagent,
    /// A job in a session of its own.
    Job,
    /// A job in the conversation that asked for it.
    JobHere(Finish),
    Heartbeat,
}

impl Caller {
    /// Whether a tool is for it, whoever asks.
    pub fn has(self, name: &str) -> bool {
        match self {
            Self::Conversation(Finish::Answer) => {
                ![finish::COMPLETION, finish::CONVERSE].contains(&name)
            }
            Self::Conversation(Finish::Explicit) => true,
            Self::Subagent => !delegate::NOT_FOR_SUBAGENTS.contains(&name),
            Self::Job => !schedule::NOT_FOR_JOBS.contains(&name),
            Self::JobHere(finish) => Self::Conversation(finish).has(name) && name != schedule::NAME,
            // It tells and asks by `converse`, for nobody waits.
            Self::Heartbeat => {
                name == finish::CONVERSE || (name != ASK_QUESTION && Self::Job.has(name))
            }
        }
    }

    /// Whether a model is told of it. In a conversation it is told of the same tools each time, because the
    /// provider's cache begins with them.
    pub(super) fn is_shown(self, name: &str) -> bool {
        match self {
            Self::JobHere(finish) => Self::Conversation(finish).has(name),
            Self::Conversation(_) | Self::Subagent | Self::Job | Self::Heartbeat => self.has(name),
        }
    }

    /// A tool as a model is told of it where it means something else; none where it does not.
    pub(super) fn told_of(self, schema: &ToolSchema) -> Option<ToolSchema> {
        match (self, schema.name.as_str()) {
            (Self::Heartbeat, finish::COMPLETION) => Some(finish::in_silence(schema)),
            _ => None,
        }
    }

    /// Whether no words are no failure: nobody has asked just now.
    pub fn may_say_nothing(self) -> bool {
        matches!(self, Self::Job | Self::JobHere(_) | Self::Heartbeat)
    }
}
