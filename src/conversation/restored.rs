//! Ends the turns that were in progress when a backup was made.

use rusqlite::Connection;

use super::transcript;
use crate::types::session::{TurnId, TurnOutcome};

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
