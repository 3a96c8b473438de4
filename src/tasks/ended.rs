//! How background tasks stand and end: one set of states for all kinds.

use serde::{Deserialize, Serialize};

use crate::store::text_columns;
use crate::types::session::TurnOutcome;
use crate::types::words::words;

/// How a background task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    Done,
    /// There was nothing to say.
    Silent,
    /// The same was said before, and was not sent again.
    Repeated,
    /// People or the model were told what went wrong.
    Failed,
    Stopped,
    /// It was cut off, and nobody knows how far it had got.
    Interrupted,
    /// It was missed, and is not made up for.
    Skipped,
}

impl TaskOutcome {
    /// How a task has ended whose turn has ended so.
    pub fn of(ending: TurnOutcome) -> Self {
        match ending {
            TurnOutcome::Answered => Self::Done,
            TurnOutcome::Silent => Self::Silent,
            TurnOutcome::Stopped => Self::Stopped,
            TurnOutcome::Failed => Self::Failed,
        }
    }
}

words!(TaskOutcome {
    Done = "done",
    Silent = "silent",
    Repeated = "repeated",
    Failed = "failed",
    Stopped = "stopped",
    Interrupted = "interrupted",
    Skipped = "skipped",
});

/// How a background task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    Running,
    Ended(TaskOutcome),
}

impl TaskState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended(ended) => ended.as_str(),
        }
    }

    fn parse(text: &str) -> Self {
        let ended = TaskOutcome::parse(text);
        match text {
            "running" => Self::Running,
            // A newer version wrote others.
            _ => Self::Ended(ended.unwrap_or(TaskOutcome::Interrupted)),
        }
    }
}

text_columns!(TaskState = Self::parse);
