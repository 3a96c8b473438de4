//! Rows that this version cannot read, because another version wrote them or the disk is damaged. Each is
//! closed by itself, and its content is stored for a person to look at.

use rusqlite::{Connection, OptionalExtension, params};

use super::origins::{origin_params, read_origin};
use super::row::{InboundOutcome, RowId, UnreadableRow, WaitingMessage, read_waiting};
use crate::store::Time;
use crate::types::message::{ChannelName, DedupKey};
use crate::types::origin::Origin;

/// Maximum number of rows of one address that are closed at a time. The next pass closes more.
const CLOSED_MAX: i64 = 100;

/// The waiting commands.
#[derive(Debug, Default)]
pub struct WaitingCommands {
    pub waiting: Vec<WaitingMessage>,
    pub unreadable: Vec<UnreadableRow>,
}

/// Returns the unreadable messages that wait at an address, including those that wait for files.
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

/// Settles a waiting row as refused, and stores its raw message. Returns its origin; None if it no longer
/// waits.
pub fn close_unreadable(
    store: &Connection,
    row: RowId,
    why: &str,
) -> rusqlite::Result<Option<Origin>> {
    let origin = store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ? WHERE id = ? AND state = 'waiting'
             RETURNING channel, chat, thread",
        )?
        .query_row(params![InboundOutcome::Refused, row], read_origin)
        .optional()?;
    if origin.is_some() {
        store
            .prepare_cached(
                "INSERT OR REPLACE INTO unreadable (key, received, channel, raw, why)
                 SELECT key, ?, channel, message, ? FROM inbound WHERE id = ?",
            )?
            .execute(params![Time::now(), why, row])?;
    }
    Ok(origin)
}

/// Stores an unreadable message of a channel.
pub fn store_unreadable(
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

/// Stores an unreadable row of another table. `key` identifies the row.
pub fn store_unreadable_row(
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
        .execute(params![key, Time::now(), channel, raw, why])?;
    Ok(())
}
