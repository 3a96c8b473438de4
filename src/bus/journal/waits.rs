//! The origins and senders of waiting messages, without their contents: the agent loop needs no more to
//! choose among them.

use rusqlite::{Connection, OptionalExtension, Row};

use super::origins::{author_task, read_origin};
use super::row::RowId;
use crate::store::LenientJson;
use crate::types::message::{Inbound, SenderId};
use crate::types::origin::{Origin, TaskKind};

/// A message that waits for a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRow {
    pub row: RowId,
    pub origin: Origin,
    /// Its sender, or the person on whose behalf it exists.
    pub sender: SenderId,
    /// The kind of the task that wrote it. None for a person.
    pub task: Option<TaskKind>,
}

/// Selects waiting messages. If `sender` is a task, which begins with a bracket, the person is in the message.
const COLUMNS: &str = "SELECT channel, chat, thread, id, sender,
    CASE WHEN substr(sender, 1, 1) = '(' THEN message END
    FROM inbound WHERE state = 'waiting' AND control = 0";

/// Returns all messages that wait for turns.
pub fn all_waiting(store: &Connection) -> rusqlite::Result<Vec<WaitingRow>> {
    let mut rows = store.prepare_cached(COLUMNS)?;
    rows.query_map([], read_waiting_row)?.collect()
}

/// Returns true if no row waits, including commands.
pub fn is_empty(store: &Connection) -> rusqlite::Result<bool> {
    let waits = store.prepare_cached("SELECT 1 FROM inbound WHERE state = 'waiting'")?.exists([])?;
    Ok(!waits)
}

/// Returns the row if it waits for a turn.
pub fn waiting_row(store: &Connection, row: RowId) -> rusqlite::Result<Option<WaitingRow>> {
    let mut rows = store.prepare_cached(&format!("{COLUMNS} AND id = ?"))?;
    rows.query_row([row], read_waiting_row).optional()
}

fn read_waiting_row(row: &Row<'_>) -> rusqlite::Result<WaitingRow> {
    let speaker: SenderId = row.get(4)?;
    let LenientJson(message) = row.get::<_, LenientJson<Inbound>>(5)?;
    Ok(WaitingRow {
        row: row.get(3)?,
        origin: read_origin(row)?,
        task: author_task(speaker.as_str()),
        sender: message.map_or(speaker, |message| message.cause.into_sender().id),
    })
}
