//! What the program does by itself or in the background: subagents, jobs and the heartbeat. Each background
//! task has a session of its own, and what it is to do waits in the journal like any message; so the agent
//! loop begins its turn, takes it up again after a crash, counts its attempts and bounds it like any other.
//! What follows from its end is decided in `turn::background`.

pub mod subagents;
pub mod schedule;
pub mod heartbeat;

use chrono::Utc;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::bus::journal::{self, RowId};
use crate::conversation::forgetting::Dependents;
use crate::conversation::task_sessions::{self, Terms};
use crate::store::text_columns;
use crate::types::message::{Address, Cause, DedupKey, Inbound, Said};
use crate::types::origin::TaskId;
use crate::types::session::{Ending, SessionId};
use crate::types::source::Span;

/// How a background task, or a run of a job, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Done,
    /// There was nothing to say.
    Silent,
    /// People or the model were told what went wrong.
    Failed,
    Stopped,
    /// It was cut off, and nobody knows how far it had got.
    Interrupted,
    /// It was missed, and is not made up for.
    Skipped,
}

impl Ended {
    const ALL: [Self; 6] =
        [Self::Done, Self::Silent, Self::Failed, Self::Stopped, Self::Interrupted, Self::Skipped];

    /// How a task has ended whose turn has ended so.
    pub fn of(ending: Ending) -> Self {
        match ending {
            Ending::Answered => Self::Done,
            Ending::Silent => Self::Silent,
            Ending::Stopped => Self::Stopped,
            Ending::Failed => Self::Failed,
        }
    }

    /// As it stands in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Silent => "silent",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
            Self::Skipped => "skipped",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ended| ended.as_str() == text)
    }
}

/// How a background task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Ended(Ended),
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended(ended) => ended.as_str(),
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "running" => Self::Running,
            // What a newer version wrote.
            _ => Self::Ended(Ended::parse(text).unwrap_or(Ended::Interrupted)),
        }
    }
}

text_columns!(Ended = |text| Self::parse(text).unwrap_or(Self::Interrupted), State = Self::parse);

/// What background tasks keep about conversations.
pub const DEPENDENTS: Dependents =
    Dependents { is_needed: subagents::needs_session, forget: subagents::forget_session };

/// What a task is to do.
pub struct Assignment<'a> {
    pub text: &'a str,
    /// The sources of the text; none: the cause tells who wrote it.
    pub sources: Vec<Span>,
    pub cause: Cause,
    pub key: DedupKey,
    /// Where people are told what comes of it.
    pub to: Address,
}

/// Starts a task: what it is to do waits for a turn from now on.
pub fn start(
    store: &Connection,
    task: TaskId,
    session: SessionId,
    terms: &Terms,
    assignment: Assignment<'_>,
) -> rusqlite::Result<RowId> {
    task_sessions::set_number(store, session, task.number)?;
    let inbound = Inbound {
        key: assignment.key,
        at: Utc::now(),
        from: assignment.to,
        place: terms.place,
        within: Vec::new(),
        cause: assignment.cause,
        id: None,
        body: Said { sources: assignment.sources, ..Said::text(assignment.text) },
    };
    journal::add_task(store, &task.origin(&terms.known_on), &inbound)
}
