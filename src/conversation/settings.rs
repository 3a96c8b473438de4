//! The settings of a conversation, in the store. A turn that runs reads them before each step, so nothing
//! is changed from beside.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal;
use crate::store::{Json, LenientJson};
use crate::types::message::Address;
use crate::types::origin::Origin;
use crate::types::session::{SessionId, Settings};

/// Those of a session.
pub fn settings_of(store: &Connection, session: SessionId) -> rusqlite::Result<Settings> {
    store
        .prepare_cached("SELECT settings FROM sessions WHERE id = ?")?
        .query_row([session], |row| read(row, 0))
}

/// Those of the open conversation at an address; the default ones if there is none.
pub fn settings_at(store: &Connection, at: &Address) -> rusqlite::Result<Settings> {
    let settings = store
        .prepare_cached(
            "SELECT settings FROM sessions
             WHERE closed IS NULL AND kind = 'chat' AND channel = ? AND chat = ? AND ifnull(thread, '') = ?",
        )?
        .query_row(journal::address_key_params(at), |row| read(row, 0))
        .optional()?;
    Ok(settings.unwrap_or_default())
}

/// Those of the open conversation of an origin. Nobody sets anything for a background task.
pub fn settings_for(store: &Connection, origin: &Origin) -> rusqlite::Result<Settings> {
    origin.chat().map_or_else(|| Ok(Settings::default()), |at| settings_at(store, at))
}

/// A session has these settings from now on.
pub fn set(store: &Connection, session: SessionId, settings: &Settings) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET settings = ? WHERE id = ?")?
        .execute(params![Json(settings), session])
        .map(drop)
}

/// Settings in a column; what cannot be read is as by default, and no conversation fails for it.
pub fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Settings> {
    Ok(row.get::<_, LenientJson<_>>(column)?.0.unwrap_or_default())
}
