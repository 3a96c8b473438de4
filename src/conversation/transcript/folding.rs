//! What compaction changes of a session and its turns, in the store.

use std::ops::Range;

use rusqlite::{Connection, params};

use crate::store::Json;
use crate::types::session::{Frozen, Mark, SessionId, TurnId};

/// These turns are folded into a summary from now on, and the session begins with the next one, if it is open and
/// began with the first of them. The memory is frozen anew: now, or when the next turn begins.
pub(crate) fn fold(
    store: &Connection,
    session: SessionId,
    turns: &Range<TurnId>,
    summary: Option<&str>,
    frozen: Option<&Frozen>,
) -> rusqlite::Result<bool> {
    let changed = store
        .prepare_cached(
            "UPDATE sessions SET summary = ?, begins = ?, frozen = ?
             WHERE id = ? AND begins = ? AND closed IS NULL",
        )?
        .execute(params![summary, turns.end, frozen.map(Json), session, turns.start])?;
    Ok(changed > 0)
}

/// Results before the mark are shortened from now on.
pub(crate) fn set_shortened(
    store: &Connection,
    session: SessionId,
    mark: Mark,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET shortened = ? WHERE id = ?")?
        .execute(params![Json(&mark), session])?;
    Ok(())
}

pub(crate) fn is_open(store: &Connection, session: SessionId) -> rusqlite::Result<bool> {
    store
        .prepare_cached("SELECT 1 FROM sessions WHERE id = ? AND closed IS NULL")?
        .exists([session])
}

/// Nobody asked for this turn, and nobody hears how it ends.
pub(crate) fn set_silent(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE turns SET silent = 1 WHERE id = ?")?.execute([turn])?;
    Ok(())
}
