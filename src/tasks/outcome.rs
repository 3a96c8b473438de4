//! States and outcomes of background tasks: one set for all kinds.

use serde::{Deserialize, Serialize};

use crate::store::text_columns;
use crate::types::session::TurnOutcome;
use crate::types::words::words;

/// The outcome of a background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    Done,
    /// It had nothing to report.
    Silent,
    /// Its report had been sent before, and was not sent again.
    Repeated,
    /// People or the model got an explanation.
    Failed,
    Stopped,
    /// It was interrupted, and its progress is unknown.
    Interrupted,
    /// It was missed, and will not be done later.
    Skipped,
}

impl TaskOutcome {
    /// Returns the outcome of a task from that of its turn.
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

/// The state of a background task.
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
            // An unknown state of a newer version counts as interrupted.
            _ => Self::Ended(ended.unwrap_or(TaskOutcome::Interrupted)),
        }
    }
}

text_columns!(TaskState = Self::parse);
