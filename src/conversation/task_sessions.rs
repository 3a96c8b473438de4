//! The sessions of background tasks. Each task has one of its own, with the address of its people. Not here: the
//! definition and the state of the task (`tasks`).

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::bus::journal::task_channel;
use crate::conversation::forgetting::forget_sessions;
use crate::store::{Json, Time};
use crate::types::message::{Address, ChannelName, ChatKind};
use crate::types::origin::{TaskId, TaskKind};
use crate::types::session::{SessionId, Settings};

/// The settings with which a task's session is opened.
pub struct SessionTerms {
    /// The channel on which its person is known.
    pub known_on: ChannelName,
    pub chat_kind: ChatKind,
    pub settings: Settings,
}

/// Opens a session for a task. `to` is the address of its people.
pub fn open(
    store: &Connection,
    task: TaskId,
    terms: &SessionTerms,
    to: &Address,
) -> rusqlite::Result<SessionId> {
    store
        .prepare_cached(
            "INSERT INTO sessions (channel, chat, thread, chat_kind, opened, kind, settings,
                                   people_channel, people_chat, people_thread)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            task_channel(task.kind),
            task.number.to_string(),
            terms.known_on,
            Json(&terms.chat_kind),
            Time::now(),
            task.kind,
            Json(&terms.settings),
            to.channel,
            to.chat,
            to.thread
        ])?;
    Ok(SessionId(store.last_insert_rowid()))
}

/// Deletes a slice of the sessions of a kind that were closed before a time. Returns the number of rows.
pub fn prune(store: &Connection, kind: TaskKind, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    forget_sessions(store, kind.as_str(), before)
}
