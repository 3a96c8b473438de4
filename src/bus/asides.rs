//! Questions aside: commands that take as long as a model does. While one is being answered its row
//! is in a turn that is none, so that it holds up no other command, and a crash leaves a trace.

use rusqlite::{Connection, params};

use crate::bus::journal::{self, Fate, RowId, Waiting};
use crate::types::message::{Address, SenderId};

/// Somebody works on it now; false if it does not wait any more.
pub fn begin(store: &Connection, row: RowId) -> rusqlite::Result<bool> {
    let begun = store
        .prepare_cached(
            "UPDATE inbound SET state = 'in turn', turn = NULL WHERE id = ? AND state = 'waiting'",
        )?
        .execute([row.0])?;
    Ok(begun > 0)
}

/// Settles one that was begun; false if it has had its outcome.
pub fn settle(store: &Connection, row: RowId, fate: Fate) -> rusqlite::Result<bool> {
    let settled = store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ?
             WHERE id = ? AND state = 'in turn' AND turn IS NULL",
        )?
        .execute(params![fate, row])?;
    Ok(settled > 0)
}

/// Those that were begun and have no outcome, oldest first.
pub fn begun(store: &Connection) -> rusqlite::Result<Vec<Waiting>> {
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread FROM inbound
         WHERE state = 'in turn' AND turn IS NULL ORDER BY +id",
    )?;
    let rows = rows.query_map([], journal::read_waiting)?;
    journal::readable(rows)
}

/// Those that were begun wait again, for the next start.
pub fn put_back(store: &Connection) -> rusqlite::Result<()> {
    store.execute(
        "UPDATE inbound SET state = 'waiting' WHERE state = 'in turn' AND turn IS NULL",
        [],
    )?;
    Ok(())
}

/// Ends those at an address: all of them, or one sender's.
pub fn stop(
    store: &Connection,
    at: &Address,
    sender: Option<&SenderId>,
) -> rusqlite::Result<usize> {
    let (channel, chat, thread) = journal::address_params(at);
    store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ?5
             WHERE state = 'in turn' AND turn IS NULL
             AND channel = ?1 AND chat = ?2 AND thread IS ?3 AND (?4 IS NULL OR sender = ?4)",
        )?
        .execute(params![channel, chat, thread, sender.map(SenderId::as_str), Fate::Stopped])
}
