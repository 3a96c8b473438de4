//! The presence of people at an address, derived from its conversations: the person who was last answered, the
//! kind of the chat, and if a turn runs there.

use rusqlite::{Connection, OptionalExtension, params};

use crate::bus::journal::address_params;
use crate::store::Json;
use crate::types::message::{Address, ChatKind, SenderId};

/// Returns the kind of chat at an address. A group if it is unknown.
pub fn chat_kind_of(store: &Connection, at: &Address) -> rusqlite::Result<ChatKind> {
    let chat_kind = store
        .prepare_cached(
            "SELECT chat_kind FROM sessions WHERE channel = ? AND chat = ? ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![at.channel, at.chat], |row| row.get::<_, Json<ChatKind>>(0))
        .optional()?;
    Ok(chat_kind.map_or(ChatKind::Group, |chat_kind| chat_kind.0))
}

/// Returns the person who was last answered at an address, if the chat is private.
pub fn last_in_private(store: &Connection, at: &Address) -> rusqlite::Result<Option<SenderId>> {
    let (channel, chat, thread) = address_params(at);
    let last = store
        .prepare_cached(
            "SELECT iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL)
             FROM turns t JOIN sessions s ON s.id = t.session
             WHERE s.kind = 'chat' AND s.chat_kind = '\"private\"' AND s.channel = ? AND s.chat = ?
             AND s.thread IS ? ORDER BY t.id DESC LIMIT 1",
        )?
        .query_row(params![channel, chat, thread], |row| row.get::<_, Option<SenderId>>(0))
        .optional()?;
    Ok(last.flatten())
}

/// Returns true if the conversation at an address is in a turn that is not suspended.
pub fn is_busy(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    let (channel, chat, thread) = address_params(at);
    store
        .prepare_cached(
            "SELECT 1 FROM turns t JOIN sessions s ON s.id = t.session WHERE t.ending IS NULL
             AND t.suspended = 0 AND s.channel = ? AND s.chat = ? AND s.thread IS ?",
        )?
        .exists(params![channel, chat, thread])
}
