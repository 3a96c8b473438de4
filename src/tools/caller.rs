//! Which tools are for whom, whoever asks.

use super::{delegate, finish, schedule};
use crate::provider::ToolSchema;
use crate::types::session::Finish;

/// What a turn works for that calls tools.
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
    /// Those that it cannot call.
    pub without: &'static [&'static str],
    /// What it says with `task_completion` is told to nobody.
    pub completes_in_silence: bool,
    /// No words are no failure: nobody has asked just now.
    pub may_say_nothing: bool,
}

impl TaskTools {
    /// Nobody speaks with it, and it hands nothing on.
    pub const SUBAGENT: Self = Self {
        without: delegate::NOT_FOR_SUBAGENTS,
        completes_in_silence: false,
        may_say_nothing: false,
    };

    /// It makes no jobs, and hands nothing on.
    pub const JOB: Self = Self {
        without: schedule::NOT_FOR_JOBS,
        completes_in_silence: false,
        may_say_nothing: true,
    };

    /// It tells and asks by `converse`, for nobody waits.
    pub const HEARTBEAT: Self = Self {
        without: schedule::NOT_FOR_HEARTBEATS,
        completes_in_silence: true,
        may_say_nothing: true,
    };
}

impl Caller {
    /// Whether a tool is for it, whoever asks.
    pub fn has(self, name: &str) -> bool {
        match self {
            Self::Conversation(Finish::Answer) => {
                ![finish::COMPLETION, finish::CONVERSE].contains(&name)
            }
            Self::Conversation(Finish::Explicit) => true,
            Self::Task(tools) => !tools.without.contains(&name),
            Self::JobHere(finish) => Self::Conversation(finish).has(name) && name != schedule::NAME,
        }
    }

    /// Whether a model is told of it. In a conversation it is told of the same tools each time, because the
    /// provider's cache begins with them.
    pub(super) fn is_shown(self, name: &str) -> bool {
        match self {
            Self::JobHere(finish) => Self::Conversation(finish).has(name),
            Self::Conversation(_) | Self::Task(_) => self.has(name),
        }
    }

    /// A tool as a model is told of it where it means something else; none where it does not.
    pub(super) fn told_of(self, schema: &ToolSchema) -> Option<ToolSchema> {
        match (self, schema.name.as_str()) {
            (Self::Task(tools), finish::COMPLETION) if tools.completes_in_silence => {
                Some(finish::in_silence(schema))
            }
            _ => None,
        }
    }

    /// Whether no words are no failure: nobody has asked just now.
    pub fn may_say_nothing(self) -> bool {
        match self {
            Self::Conversation(_) => false,
            Self::JobHere(_) => true,
            Self::Task(tools) => tools.may_say_nothing,
        }
    }
}
