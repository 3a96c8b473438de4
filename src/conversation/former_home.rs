//! The record of a former version: the files that its calls have written, and the conversations that are still open.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::bus::journal::{read_address, read_origin_at};
use crate::store::{Json, LenientJson, Time};
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::origin::Origin;
use crate::types::session::{SessionId, TurnId};

/// A file that a call has written, without being undone.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenFile {
    pub path: String,
    pub tool: String,
    pub session: SessionId,
    pub turn: TurnId,
    pub origin: Origin,
    /// None if it cannot be read.
    pub chat_kind: Option<ChatKind>,
    /// None if it cannot be read.
    pub sender: Option<Sender>,
    /// True if a person has approved the call.
    pub was_allowed: bool,
}

/// Returns all written files, oldest first.
pub fn written_files(store: &Connection) -> rusqlite::Result<Vec<WrittenFile>> {
    let mut rows = store.prepare(
        "SELECT iif(json_valid(c.undo), json_extract(c.undo, '$.path'), NULL), c.tool, s.id, t.id, t.sender, s.chat_kind, EXISTS (SELECT 1 FROM asks a
             WHERE a.call = c.id AND a.kind = 'approval'), s.channel, s.chat, s.thread
         FROM calls c JOIN turns t ON t.id = c.turn JOIN sessions s ON s.id = t.session
         WHERE c.state IN ('done', 'interrupted') AND c.undone IS NULL AND s.kind <> 'command'
             AND iif(json_valid(c.undo), json_extract(c.undo, '$.path'), NULL) IS NOT NULL
         ORDER BY c.id",
    )?;
    let rows = rows.query_map([], |row| {
        Ok(WrittenFile {
            path: row.get(0)?,
            tool: row.get(1)?,
            session: row.get(2)?,
            turn: row.get(3)?,
            sender: row.get::<_, LenientJson<Sender>>(4)?.0,
            chat_kind: row.get::<_, LenientJson<ChatKind>>(5)?.0,
            was_allowed: row.get(6)?,
            origin: read_origin_at(row, 7)?,
        })
    })?;
    rows.collect()
}

/// Returns the private chats whose open conversation has had a turn since a time.
pub fn open_private_chats(
    store: &Connection,
    since: DateTime<Utc>,
) -> rusqlite::Result<Vec<Address>> {
    let mut rows = store.prepare(
        "SELECT channel, chat, thread FROM sessions s WHERE closed IS NULL AND kind = 'chat' AND chat_kind = ?
             AND EXISTS (SELECT 1 FROM turns t WHERE t.session = s.id AND t.started >= ?)",
    )?;
    let rows = rows.query_map(params![Json(ChatKind::Private), Time(since)], read_address)?;
    rows.collect()
}
