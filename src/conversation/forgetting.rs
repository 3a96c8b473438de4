//! Deletes turns and conversations with all their rows, in the order that foreign keys require, a bounded
//! number at a time, so that other changes can happen in between. Not here: the retention of each kind.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::bus::journal;
use crate::conversation::history;
use crate::store::{SLICE, Time, slice};
use crate::types::session::{SessionId, TurnId};

/// Deletes turns with their steps, calls and questions. Their messages and costs stay, without a turn.
pub fn forget_turns(store: &Connection, turns: &[TurnId]) -> rusqlite::Result<()> {
    // The schema clears the reference in the ledger by itself.
    for statement in [
        "DELETE FROM asks WHERE turn = ?",
        "DELETE FROM calls WHERE turn = ?",
        "DELETE FROM steps WHERE turn = ?",
    ] {
        let mut forget = store.prepare_cached(statement)?;
        turns.iter().try_for_each(|turn| forget.execute([turn]).map(drop))?;
    }
    let mut forget = store.prepare_cached("DELETE FROM turns WHERE id = ?")?;
    for turn in turns {
        history::forget_turn(store, *turn)?;
        journal::forget_turn(store, *turn)?;
        forget.execute([turn])?;
    }
    Ok(())
}

/// Deletes a slice of the conversations of a kind that were closed before a time, oldest first. Those with an
/// unfinished turn or an open proposal stay. Returns the number of deleted rows.
pub fn forget_sessions(
    store: &Connection,
    kind: &str,
    before: DateTime<Utc>,
) -> rusqlite::Result<usize> {
    let mut sessions = store.prepare_cached(
        "SELECT id FROM sessions s WHERE kind = ? AND closed < ?
         AND NOT EXISTS (SELECT 1 FROM turns WHERE session = s.id AND ending IS NULL)
         AND NOT EXISTS (SELECT 1 FROM proposals WHERE session = s.id AND state = 'open')
         ORDER BY closed LIMIT ?",
    )?;
    let sessions = sessions
        .query_map(params![kind, Time(before), slice()], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<SessionId>>>()?;
    let mut turns_of = store.prepare_cached("SELECT id FROM turns WHERE session = ? LIMIT ?")?;
    let mut deleted = 0;
    for session in sessions {
        let left = i64::try_from(SLICE - deleted).expect("a small number");
        let turns = turns_of
            .query_map(params![session, left], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        forget_turns(store, &turns)?;
        deleted += turns.len();
        if deleted >= SLICE {
            break;
        }
        forget_empty_session(store, session)?;
        deleted += 1;
    }
    Ok(deleted)
}

/// Deletes a conversation without turns.
pub(super) fn forget_empty_session(store: &Connection, session: SessionId) -> rusqlite::Result<()> {
    for statement in
        ["DELETE FROM proposals WHERE session = ?1", "DELETE FROM sessions WHERE id = ?1"]
    {
        store.prepare_cached(statement)?.execute([session])?;
    }
    Ok(())
}

/// Deletes a slice of the turns of open conversations that ended before a time and that models no longer
/// see. Returns their number.
pub fn forget_unseen_turns(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut turns = store.prepare_cached(
        "SELECT t.id FROM turns t JOIN sessions s ON s.id = t.session
         WHERE t.ended < ? AND t.ending IS NOT NULL AND s.closed IS NULL AND t.id < s.begins
         ORDER BY t.ended LIMIT ?",
    )?;
    let turns = turns
        .query_map(params![Time(before), slice()], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    forget_turns(store, &turns)?;
    Ok(turns.len())
}
