//! Rows that this version cannot read: another version wrote them, or a disk broke them. Each is closed
//! alone, and what it held is kept for a person to look at.

use chrono::Utc;
use rusqlite::{Connection, OptionalExtension, params};

use super::origins::{origin_params, read_origin};
use super::row::{Fate, RowId, UnreadableRow, Waiting, read_waiting};
use crate::store::Time;
use crate::types::message::{ChannelName, DedupKey};
use crate::types::origin::Origin;

/// Rows of one address that are closed at a time; the rest follows when it is looked at again.
const CLOSED_MAX: i64 = 100;

/// The commands that wait.
#[derive(Debug, Default)]
pub struct Controls {
    pub waiting: Vec<Waiting>,
    pub unreadable: Vec<UnreadableRow>,
}

/// The messages that wait at an address and cannot be read, also those whose files are awaited.
pub fn unreadable_at(store: &Connection, at: &Origin) -> rusqlite::Result<Vec<UnreadableRow>> {
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread FROM inbound
         WHERE state = 'waiting' AND control = 0 AND channel = ? AND chat = ? AND thread IS ?
         ORDER BY id LIMIT ?",
    )?;
    let (channel, chat, thread) = origin_params(at);
    let rows = rows.query_map(params![channel, chat, thread, CLOSED_MAX], read_waiting)?;
    rows.filter_map(|row| row.map(Result::err).transpose()).collect()
}

/// Settles a waiting row as refused, whose message is kept as it is; gives its origin. None if it
/// does not wait any more.
pub fn close_unreadable(
    store: &Connection,
    row: RowId,
    why: &str,
) -> rusqlite::Result<Option<Origin>> {
    let closed = store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ? WHERE id = ? AND state = 'waiting'
             RETURNING channel, chat, thread",
        )?
        .query_row(params![Fate::Refused, row], read_origin)
        .optional()?;
    if closed.is_some() {
        store
            .prepare_cached(
                "INSERT OR REPLACE INTO unreadable (key, received, channel, raw, why)
                 SELECT key, ?, channel, message, ? FROM inbound WHERE id = ?",
            )?
            .execute(params![Utc::now().timestamp_millis(), why, row.0])?;
    }
    Ok(closed)
}

/// Keeps what a channel received and could not read.
pub fn keep_raw(
    store: &Connection,
    key: &DedupKey,
    channel: &ChannelName,
    raw: &str,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT OR IGNORE INTO unreadable (key, received, channel, raw) VALUES (?, ?, ?, ?)",
        )?
        .execute(params![key, Time::now(), channel, raw])?;
    Ok(())
}

/// Keeps what another table held and nobody can read; `key` names the row.
pub fn keep_row(
    store: &Connection,
    key: &str,
    channel: &str,
    raw: &str,
    why: &str,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO unreadable (key, received, channel, raw, why) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![key, Utc::now().timestamp_millis(), channel, raw, why])?;
    Ok(())
}
