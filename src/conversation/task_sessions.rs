//! The sessions of background tasks. Each task has one of its own, which knows where its people are; what the
//! task is, and how it stands, is kept by whoever starts it.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::bus::journal::{address_params, read_address, task_channel};
use crate::conversation::forgetting::{Dependents, forget_sessions};
use crate::store::{Json, Time};
use crate::types::message::{Address, ChannelName, Place};
use crate::types::origin::TaskKind;
use crate::types::session::{SessionId, Settings};

/// The terms on which a task's session is opened.
pub struct Terms {
    /// The channel on which its person is known.
    pub known_on: ChannelName,
    pub place: Place,
    pub settings: Settings,
}

/// Opens a session for a task whose number is not known yet; `to` is where its people are.
pub fn open(
    store: &Connection,
    kind: TaskKind,
    terms: &Terms,
    to: &Address,
) -> rusqlite::Result<SessionId> {
    store
        .prepare_cached(
            "INSERT INTO sessions (channel, chat, thread, place, opened, kind, settings,
                                   people_channel, people_chat, people_thread)
             VALUES (?, '', ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            task_channel(kind),
            terms.known_on,
            Json(&terms.place),
            Time::now(),
            kind,
            Json(&terms.settings),
            to.channel,
            to.chat,
            to.thread
        ])?;
    Ok(SessionId(store.last_insert_rowid()))
}

/// Gives the session of a task its number.
pub fn set_number(store: &Connection, session: SessionId, number: i64) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET chat = ? WHERE id = ?")?
        .execute(params![number.to_string(), session])
        .map(drop)
}

/// Where the people of a task are; none of a session that is no task's.
pub fn people_at(store: &Connection, session: SessionId) -> rusqlite::Result<Option<Address>> {
    store
        .prepare_cached(
            "SELECT people_channel, people_chat, people_thread FROM sessions
             WHERE id = ? AND people_channel IS NOT NULL",
        )?
        .query_row([session], read_address)
        .optional()
}

/// The last sessions of tasks of a kind whose people are at an address, the newest first.
pub fn last_for(
    store: &Connection,
    kind: TaskKind,
    at: &Address,
    most: i64,
) -> rusqlite::Result<Vec<SessionId>> {
    let (channel, chat, thread) = address_params(at);
    let mut rows = store.prepare_cached(
        "SELECT id FROM sessions WHERE people_channel = ? AND people_chat = ? AND people_thread IS ?
         AND kind = ? ORDER BY id DESC LIMIT ?",
    )?;
    rows.query_map(params![channel, chat, thread, kind, most], |row| row.get(0))?.collect()
}

/// Forgets those of a kind that were closed before a time, a slice at a time; returns how many rows.
pub fn prune(
    store: &Connection,
    kind: TaskKind,
    before: DateTime<Utc>,
    dependents: &Dependents,
) -> rusqlite::Result<usize> {
    forget_sessions(store, kind.as_str(), before, dependents)
}
