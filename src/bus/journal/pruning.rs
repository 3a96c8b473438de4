//! Deletes old rows of the journal.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::store::{Time, slice};
use crate::types::session::TurnId;

/// Detaches the messages that a turn has answered: the turn is deleted next.
pub fn forget_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE inbound SET turn = NULL WHERE turn = ?")?.execute([turn]).map(drop)
}

/// Deletes rows that were done before a time, and unreadable ones, a slice at a time. Returns the number
/// of rows.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut forgotten = 0;
    for old in [
        "DELETE FROM inbound WHERE id IN (SELECT id FROM inbound
         WHERE state = 'done' AND received < ? ORDER BY received LIMIT ?)",
        "DELETE FROM unreadable WHERE key IN (SELECT key FROM unreadable
         WHERE received < ? ORDER BY received LIMIT ?)",
    ] {
        forgotten += store.prepare_cached(old)?.execute(params![Time(before), slice()])?;
    }
    Ok(forgotten)
}
