//! Availability of tools by caller, independent of the person's role.

use super::{delegate, finish, schedule};
use crate::provider::ToolSchema;
use crate::types::session::Finish;

/// The kind of turn that calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Conversation(Finish),
    /// A job in the conversation that asked for it.
    JobHere(Finish),
    /// A background task, in a session of its own.
    Task(TaskTools),
}

/// The tools of a kind of background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTools {
    /// The tools that it cannot call.
    pub without: &'static [&'static str],
    /// The result of its `task_completion` is sent to nobody.
    pub completes_in_silence: bool,
    /// An empty answer is no failure, because nobody is waiting for it.
    pub may_be_silent: bool,
}

impl TaskTools {
    /// It talks to nobody, and delegates nothing.
    pub const SUBAGENT: Self = Self {
        without: delegate::NOT_FOR_SUBAGENTS,
        completes_in_silence: false,
        may_be_silent: false,
    };

    /// It creates no jobs, and delegates nothing.
    pub const JOB: Self =
        Self { without: schedule::NOT_FOR_JOBS, completes_in_silence: false, may_be_silent: true };

    /// It notifies and asks by `converse`, because nobody is waiting.
    pub const HEARTBEAT: Self = Self {
        without: schedule::NOT_FOR_HEARTBEATS,
        completes_in_silence: true,
        may_be_silent: true,
    };
}

impl Caller {
    /// Returns true if the caller can call a tool, whatever the person's role.
    pub fn has(self, name: &str) -> bool {
        match self {
            Self::Conversation(Finish::Answer) => {
                ![finish::COMPLETION, finish::CONVERSE].contains(&name)
            }
            Self::Conversation(Finish::Explicit) => true,
            Self::Task(tools) => !tools.without.contains(&name),
            Self::JobHere(finish) => {
                Self::Conversation(finish).has(name) && name != schedule::SCHEDULE
            }
        }
    }

    /// Returns true if a model sees the tool. A conversation always shows the same tools, because the
    /// provider's cache begins with them.
    pub(super) fn is_shown(self, name: &str) -> bool {
        match self {
            Self::JobHere(finish) => Self::Conversation(finish).has(name),
            Self::Conversation(_) | Self::Task(_) => self.has(name),
        }
    }

    /// Returns a changed schema for a tool that means something else to this caller. None if it does not.
    pub(super) fn schema_for_caller(self, schema: &ToolSchema) -> Option<ToolSchema> {
        match (self, schema.name.as_str()) {
            (Self::Task(tools), finish::COMPLETION) if tools.completes_in_silence => {
                Some(finish::silent_schema(schema))
            }
            _ => None,
        }
    }

    /// Returns true if an empty answer is no failure, because nobody is waiting for it.
    pub fn may_be_silent(self) -> bool {
        match self {
            Self::Conversation(_) => false,
            Self::JobHere(_) => true,
            Self::Task(tools) => tools.may_be_silent,
        }
    }
}
