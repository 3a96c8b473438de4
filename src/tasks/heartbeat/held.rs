//! Alerts that are held back for quiet hours, when the owner's address changes. Not here: their delivery (`run.rs`).

use rusqlite::{Connection, params};

use crate::bus::journal::address_params;
use crate::people;
use crate::types::message::Address;

/// Moves the alerts that are held back for an address to that of the owner. Without one they are dropped.
pub fn move_held(store: &Connection, from: &Address) -> rusqlite::Result<()> {
    let owner = people::owner_address(store)?;
    let held = owner.is_some();
    let (channel, chat, thread) = address_params(from);
    let (new_channel, new_chat, new_thread) = address_params(owner.as_ref().unwrap_or(from));
    store
        .prepare_cached(
            "UPDATE tasks SET held = ?, channel = ?, chat = ?, thread = ?
             WHERE held = 1 AND channel = ? AND chat = ? AND thread IS ?",
        )?
        .execute(params![held, new_channel, new_chat, new_thread, channel, chat, thread])
        .map(drop)
}
