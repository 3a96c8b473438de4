//! Side questions: commands that call a model. While one is being answered, its row is `in turn` without a
//! turn, so that it delays no other command, and a crash leaves a trace.

use rusqlite::{Connection, params};

use crate::bus::journal::{self, InboundOutcome, RowId, WaitingMessage};
use crate::people::persons::PersonAccount;
use crate::types::message::{Address, SenderId};

/// Marks a side question as being answered. Returns false if it does not wait any more.
pub fn begin(store: &Connection, row: RowId) -> rusqlite::Result<bool> {
    let begun = store
        .prepare_cached(
            "UPDATE inbound SET state = 'in turn', turn = NULL WHERE id = ? AND state = 'waiting'",
        )?
        .execute([row])?;
    Ok(begun > 0)
}

/// Settles a side question in progress. Returns false if it has an outcome already.
pub fn settle(store: &Connection, row: RowId, outcome: InboundOutcome) -> rusqlite::Result<bool> {
    let settled = store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ?
             WHERE id = ? AND state = 'in turn' AND turn IS NULL",
        )?
        .execute(params![outcome, row])?;
    Ok(settled > 0)
}

/// Returns the side questions in progress without an outcome, oldest first.
pub fn in_progress(store: &Connection) -> rusqlite::Result<Vec<WaitingMessage>> {
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread FROM inbound
         WHERE state = 'in turn' AND turn IS NULL ORDER BY +id",
    )?;
    let rows = rows.query_map([], journal::read_waiting)?;
    journal::readable(rows)
}

/// Makes the side questions in progress wait again, for the next start.
pub fn put_back(store: &Connection) -> rusqlite::Result<()> {
    store.execute(
        "UPDATE inbound SET state = 'waiting' WHERE state = 'in turn' AND turn IS NULL",
        [],
    )?;
    Ok(())
}

/// Stops the side questions at an address: all of them, or one sender's.
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
        .execute(params![channel, chat, thread, sender, InboundOutcome::Stopped])
}

/// Stops the side questions of an account, wherever it asked them.
pub fn stop_all_of(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ?
             WHERE state = 'in turn' AND turn IS NULL AND channel = ? AND sender = ?",
        )?
        .execute(params![InboundOutcome::Stopped, account.channel, account.sender])
        .map(drop)
}
