//! Ends the pending work of a restored backup, inbound and outbound, and returns it for a list.

use rusqlite::{Connection, params};

use crate::bus::journal::{InboundOutcome, read_address};
use crate::store::{self, LenientJson, NewestRowNumber, Time};
use crate::types::message::{Address, Body, ChannelName};

/// A message that was pending when the backup was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMessage {
    pub at: Address,
    pub text: String,
}

/// Ends all messages that wait or are being worked on. Returns them, oldest first.
pub fn end_incoming(store: &Connection) -> rusqlite::Result<Vec<PendingMessage>> {
    let mut rows = store.prepare(
        "SELECT channel, chat, thread, ifnull(iif(json_valid(message),
             json_extract(message, '$.body.text'), NULL), '') FROM inbound
         WHERE state <> 'done' AND json_valid(message) ORDER BY id",
    )?;
    let pending =
        rows.query_map([], |row| Ok(PendingMessage { at: read_address(row)?, text: row.get(3)? }))?;
    let pending = pending.collect::<rusqlite::Result<Vec<_>>>()?;
    store.execute(
        "UPDATE inbound SET state = 'done', outcome = ? WHERE state <> 'done'",
        [InboundOutcome::Stopped],
    )?;
    Ok(pending)
}

/// Gives up all pending deliveries without a notice to anybody. Returns them, oldest first.
pub fn end_outgoing(store: &Connection) -> rusqlite::Result<Vec<PendingMessage>> {
    let mut rows = store.prepare(
        "SELECT channel, chat, thread, body FROM outbox WHERE state = 'pending' ORDER BY id",
    )?;
    let pending = rows.query_map([], |row| {
        let LenientJson(body): LenientJson<Body> = row.get(3)?;
        let text = body.map(|body| body.text().to_owned()).unwrap_or_default();
        Ok(PendingMessage { at: read_address(row)?, text })
    })?;
    let pending = pending.collect::<rusqlite::Result<Vec<_>>>()?;
    store.execute(
        "UPDATE chunks SET state = 'dead' WHERE state IN ('pending', 'sending')
         AND delivery IN (SELECT id FROM outbox WHERE state = 'pending')",
        [],
    )?;
    store.execute(
        "UPDATE outbox SET state = 'dead', reason = 'restored from a backup', failing_since = NULL,
         failed_at = NULL WHERE state = 'pending'",
        [],
    )?;
    store.execute("UPDATE outbox SET unexplained = 0 WHERE unexplained = 1", [])?;
    Ok(pending)
}

/// Deliveries that a backup of unknown age may lack. Far more than a home has in its life.
const SKIPPED_DELIVERIES: i64 = 1_000_000;

/// Has the next deliveries get numbers that none after the backup had: a button of these names its delivery, and would
/// be one of another question.
pub fn skip_delivery_numbers(store: &Connection) -> rusqlite::Result<()> {
    let table = "outbox".to_owned();
    // Not the rows: the newest may be deleted.
    let newest = store::newest_row_numbers(store)?.into_iter().find(|it| it.table == table);
    let number = newest.map_or(0, |it| it.number).saturating_add(SKIPPED_DELIVERIES);
    store::skip_row_numbers(store, &[NewestRowNumber { table, number }])
}

/// A channel's position in its platform's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelMark {
    channel: ChannelName,
    mark: String,
    at: Time,
}

/// Returns the positions of all channels.
pub fn channel_marks(store: &Connection) -> rusqlite::Result<Vec<ChannelMark>> {
    let mut rows =
        store.prepare("SELECT channel, mark, at FROM marks WHERE name = '' AND channel <> ''")?;
    rows.query_map([], |row| {
        Ok(ChannelMark { channel: row.get(0)?, mark: row.get(1)?, at: row.get(2)? })
    })?
    .collect()
}

/// Stores the positions that are newer than the stored ones, and deletes a requested restart.
pub fn keep_newer_marks(store: &Connection, marks: &[ChannelMark]) -> rusqlite::Result<()> {
    for ChannelMark { channel, mark, at } in marks {
        store.execute(
            "INSERT INTO marks (channel, name, mark, at) VALUES (?1, '', ?2, ?3)
             ON CONFLICT (channel, name) DO UPDATE SET mark = ?2, at = ?3 WHERE at < ?3",
            params![channel, mark, at],
        )?;
    }
    store.execute("DELETE FROM marks WHERE channel = '' AND name = 'restart'", [])?;
    Ok(())
}
