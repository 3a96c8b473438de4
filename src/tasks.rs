//! What the program does by itself or in the background: subagents, jobs and the heartbeat. Each background
//! task has a session of its own, and what it is to do waits in the journal like any message; so the agent
//! loop begins its turn, takes it up again after a crash, counts its attempts and bounds it like any other.
//! What follows from its end is decided in `turn::background`.

pub mod subagents;
pub mod schedule;
pub mod heartbeat;

use chrono::Utc;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{self, RowId, origin_params};
use crate::conversation::sessions::open_for;
use crate::types::message::{Address, Cause, ChannelName, DedupKey, Inbound, Place, Said};
use crate::types::origin::{Origin, TaskId, TaskKind};
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

/// On what terms a task's session is opened.
pub struct Terms {
    /// The channel on which its person is known.
    pub known_on: ChannelName,
    pub place: Place,
    /// JSON: Settings.
    pub settings: String,
}

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

/// Opens a session for a task whose number is not known yet.
pub fn open_session(
    store: &Connection,
    kind: TaskKind,
    terms: &Terms,
) -> rusqlite::Result<SessionId> {
    store
        .prepare_cached(
            "INSERT INTO sessions (channel, chat, thread, place, opened, kind, settings)
             VALUES (?, '', ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            journal::task_channel(kind),
            terms.known_on.as_str(),
            serde_json::to_string(&terms.place).expect("a place is a word"),
            Utc::now().timestamp_millis(),
            kind.as_str(),
            terms.settings
        ])?;
    Ok(SessionId(store.last_insert_rowid()))
}

/// Starts a task: what it is to do waits for a turn from now on.
pub fn start(
    store: &Connection,
    task: TaskId,
    (session, terms): (SessionId, &Terms),
    assignment: Assignment<'_>,
) -> rusqlite::Result<RowId> {
    store
        .prepare_cached("UPDATE sessions SET chat = ? WHERE id = ?")?
        .execute(params![task.number.to_string(), session.0])?;
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

/// Closes the session of a task that has ended.
pub fn close_session(store: &Connection, origin: &Origin) -> rusqlite::Result<()> {
    let (channel, chat, thread) = origin_params(origin);
    let close = format!("UPDATE sessions SET closed = ? WHERE {}", open_for(origin));
    store.prepare_cached(&close)?.execute(params![
        Utc::now().timestamp_millis(),
        channel,
        chat,
        thread.unwrap_or_default()
    ])?;
    Ok(())
}
