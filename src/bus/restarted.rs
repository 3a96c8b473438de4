//! The address that requested a restart, stored so that it gets an answer after the restart.

use rusqlite::Connection;

use super::{marks, outbox};
use crate::replies;
use crate::types::message::Address;

/// Stores the address that requested a restart, in the transaction that answers the command.
pub fn note(store: &Connection, asked_at: &Address) -> rusqlite::Result<()> {
    let asked_at = serde_json::to_string(asked_at).expect("an address has string keys");
    marks::set_restart(store, &asked_at)
}

/// Reports a restart to the address that requested it, once, after the program has started again.
pub fn report(store: &Connection) -> rusqlite::Result<()> {
    let Some(asked_at) = marks::take_restart(store)? else { return Ok(()) };
    let text = replies::restarted(env!("CARGO_PKG_VERSION"));
    match serde_json::from_str(&asked_at) {
        Ok(asked_at) => outbox::put(store, &asked_at, None, &text).map(drop),
        // Written by another version of the program.
        Err(_) => Ok(()),
    }
}
