//! What compaction changes of a session and its turns, in the store.

use rusqlite::{Connection, params};

use crate::conversation::transcript::to_json;
use crate::types::session::{Frozen, Mark, SessionId, TurnId};

/// What was said before a turn is folded into a summary from now on, if the session is open and
/// began where it did. The memory is frozen anew: now, or when the next turn begins.
pub(crate) fn fold(
    store: &Connection,
    session: SessionId,
    (from, to): (TurnId, TurnId),
    summary: Option<&str>,
    frozen: Option<&Frozen>,
) -> rusqlite::Result<bool> {
    let changed = store
        .prepare_cached(
            "UPDATE sessions SET summary = ?, begins = ?, frozen = ?
             WHERE id = ? AND begins = ? AND closed IS NULL",
        )?
        .execute(params![summary, to.0, frozen.map(to_json), session.0, from.0])?;
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
        .execute(params![to_json(&mark), session.0])?;
    Ok(())
}

pub(crate) fn is_open(store: &Connection, session: SessionId) -> rusqlite::Result<bool> {
    store
        .prepare_cached("SELECT 1 FROM sessions WHERE id = ? AND closed IS NULL")?
        .exists([session.0])
}

/// Nobody asked for this turn, and nobody hears how it ends.
pub(crate) fn set_silent(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE turns SET silent = 1 WHERE id = ?")?.execute([turn.0])?;
    Ok(())
}
