//! Where a restart was asked for: kept over the restart, so that the answer goes there.

use rusqlite::Connection;

use super::{marks, outbox};
use crate::replies;
use crate::types::message::Address;

/// Keeps where somebody asked for a restart, in the transaction that answers them.
pub fn note(store: &Connection, asked_at: &Address) -> rusqlite::Result<()> {
    let asked_at = serde_json::to_string(asked_at).expect("an address has string keys");
    marks::set_restart(store, &asked_at)
}

/// Reports back where a restart was asked for; once, and only after the program has started again.
pub fn report(store: &Connection) -> rusqlite::Result<()> {
    let Some(asked_at) = marks::take_restart(store)? else { return Ok(()) };
    let words = replies::restarted(env!("CARGO_PKG_VERSION"));
    match serde_json::from_str(&asked_at) {
        Ok(asked_at) => outbox::put(store, &asked_at, None, &words).map(drop),
        // Of another version of the program.
        Err(_) => Ok(()),
    }
}
