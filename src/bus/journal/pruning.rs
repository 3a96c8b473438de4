//! How the journal forgets.

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use crate::store::slice;
use crate::types::session::TurnId;

/// Lets the messages that a turn has answered stay without it: the turn is deleted next.
pub fn forget_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE inbound SET turn = NULL WHERE turn = ?")?.execute([turn]).map(drop)
}

/// Forgets what was done before a time, and what could not be read, a slice at a time; returns how many rows.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut forgotten = 0;
    for old in [
        "DELETE FROM inbound WHERE id IN (SELECT id FROM inbound
         WHERE state = 'done' AND received < ? ORDER BY received LIMIT ?)",
        "DELETE FROM unreadable WHERE key IN (SELECT key FROM unreadable
         WHERE received < ? ORDER BY received LIMIT ?)",
    ] {
        forgotten += store.prepare_cached(old)?.execute([before.timestamp_millis(), slice()])?;
    }
    Ok(forgotten)
}
