//! The settings of a conversation in the store. A running turn reads them before each step, so no other
//! task changes its session.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal;
use crate::store::{Json, LenientJson};
use crate::types::message::Address;
use crate::types::origin::Origin;
use crate::types::session::{SessionId, Settings};

/// Returns the settings of a session.
pub fn settings_of(store: &Connection, session: SessionId) -> rusqlite::Result<Settings> {
    store
        .prepare_cached("SELECT settings FROM sessions WHERE id = ?")?
        .query_row([session], |row| read(row, 0))
}

/// Returns the settings of the open conversation at an address. The defaults if there is none.
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

/// Returns the settings of the open conversation of an origin. A background task has the defaults.
pub fn settings_for(store: &Connection, origin: &Origin) -> rusqlite::Result<Settings> {
    origin.chat().map_or_else(|| Ok(Settings::default()), |at| settings_at(store, at))
}

/// Stores the settings of a session.
pub fn set(store: &Connection, session: SessionId, settings: &Settings) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET settings = ? WHERE id = ?")?
        .execute(params![Json(settings), session])
        .map(drop)
}

/// Reads settings from a column. Unreadable ones are replaced by the defaults, so that no conversation fails.
pub fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Settings> {
    Ok(row.get::<_, LenientJson<_>>(column)?.0.unwrap_or_default())
}
