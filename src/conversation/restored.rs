//! Ends the turns that were in progress when a backup was made, and the calls that waited outside of turns.

use rusqlite::Connection;

use super::transcript;
use crate::bus::journal::read_address;
use crate::types::message::Address;
use crate::types::session::{TurnId, TurnOutcome};

/// A call that nobody could be asked about in its turn, and that was pending when the backup was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// The address for its result.
    pub to: Address,
    pub tool: String,
}

/// Ends all running and suspended turns, with their calls and questions. Returns the number of turns.
pub fn end_turns(store: &Connection) -> rusqlite::Result<usize> {
    let mut rows = store.prepare("SELECT id FROM turns WHERE ending IS NULL ORDER BY id")?;
    let open = rows.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<TurnId>>>()?;
    for turn in &open {
        transcript::end_turn(store, *turn, TurnOutcome::Stopped)?;
    }
    store.execute("UPDATE asks SET state = 'cancelled', shown = NULL WHERE state = 'open'", [])?;
    Ok(open.len())
}

/// Drops the calls that would go on by themselves: approved ones that wait for others, which would be made, and those whose
/// report is held back. Returns them, oldest first. Also drops those of turns that have ended without a report. What
/// people were shown stays open: it is made only if somebody approves it.
pub fn end_calls(store: &Connection) -> rusqlite::Result<Vec<PendingCall>> {
    let mut rows = store.prepare(
        "SELECT channel, chat, thread, tool FROM deferred_calls WHERE queued = 1 OR held = 1 ORDER BY id",
    )?;
    let pending =
        rows.query_map([], |row| Ok(PendingCall { to: read_address(row)?, tool: row.get(3)? }))?;
    let pending = pending.collect::<rusqlite::Result<Vec<_>>>()?;
    store.execute(
        "UPDATE deferred_calls SET untold = NULL, turn = NULL, held = 0, queued = 0, state = 'denied'
         WHERE queued = 1 OR held = 1 OR untold IS NOT NULL",
        [],
    )?;
    Ok(pending)
}
