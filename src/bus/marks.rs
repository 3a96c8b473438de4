//! Durable marks: a channel's position in its platform's events (an offset, for example), the newest trusted time of
//! the clock, and the address that requested a restart.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::store::Time;
use crate::types::message::ChannelName;

/// Returns a channel's own mark, and the time it was set.
pub(super) fn of_channel(
    store: &Connection,
    channel: &ChannelName,
) -> rusqlite::Result<Option<(String, DateTime<Utc>)>> {
    store
        .prepare_cached("SELECT mark, at FROM marks WHERE channel = ? AND name = ''")?
        .query_row([channel], |row| Ok((row.get(0)?, row.get::<_, Time>(1)?.0)))
        .optional()
}

/// Sets a channel's own mark.
pub(super) fn set_of_channel(
    store: &Connection,
    channel: &ChannelName,
    mark: &str,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO marks (channel, name, mark, at) VALUES (?, '', ?, ?)",
        )?
        .execute(params![channel, mark, Time::now()])
        .map(drop)
}

/// Returns the newest trusted time of the clock. None if there is none.
pub fn last_trusted_time(store: &Connection) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let at = store
        .prepare_cached("SELECT at FROM marks WHERE channel = '' AND name = 'clock'")?
        .query_row([], |row| row.get::<_, Time>(0))
        .optional()?;
    Ok(at.map(|at| at.0))
}

/// Stores a trusted time of the clock.
pub fn store_trusted_time(store: &Connection, at: DateTime<Utc>) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT INTO marks (channel, name, mark, at) VALUES ('', 'clock', '', ?)
             ON CONFLICT (channel, name) DO UPDATE SET at = excluded.at",
        )?
        .execute([Time(at)])
        .map(drop)
}

/// Stores the time of a health check. Nobody reads it: the commit itself proves that the store can write.
pub fn note_health(store: &Connection) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT INTO marks (channel, name, mark, at) VALUES ('', 'health', '', ?)
             ON CONFLICT (channel, name) DO UPDATE SET at = excluded.at",
        )?
        .execute([Time::now()])
        .map(drop)
}

/// Stores the address that requested a restart.
pub(super) fn set_restart(store: &Connection, asked_at: &str) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO marks (channel, name, mark, at) VALUES ('', 'restart', ?, ?)",
        )?
        .execute(params![asked_at, Time::now()])
        .map(drop)
}

/// Returns the address that requested a restart, and deletes it.
pub(super) fn take_restart(store: &Connection) -> rusqlite::Result<Option<String>> {
    store
        .prepare_cached("DELETE FROM marks WHERE channel = '' AND name = 'restart' RETURNING mark")?
        .query_row([], |row| row.get(0))
        .optional()
}
