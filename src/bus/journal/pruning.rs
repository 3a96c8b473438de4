//! Deletes old rows of the journal.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::store::{Time, slice};
use crate::types::session::TurnId;

/// Detaches messages from their turn, which is about to be deleted.
pub fn forget_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE inbound SET turn = NULL WHERE turn = ?")?.execute([turn]).map(drop)
}

/// Deletes a slice of the rows that are done and were received before a time, and one of the unreadable
/// ones. Returns the number of deleted rows.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut deleted = 0;
    for statement in [
        "DELETE FROM inbound WHERE id IN (SELECT id FROM inbound
         WHERE state = 'done' AND received < ? ORDER BY received LIMIT ?)",
        "DELETE FROM unreadable WHERE key IN (SELECT key FROM unreadable
         WHERE received < ? ORDER BY received LIMIT ?)",
    ] {
        deleted += store.prepare_cached(statement)?.execute(params![Time(before), slice()])?;
    }
    Ok(deleted)
}
