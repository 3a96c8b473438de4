//! Ends the turns that were in progress when a backup was made, and the calls that waited for people or others.
//! Permanent approvals that were revoked since are revoked again.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params, params_from_iter};

use super::asks::Grant;
use super::transcript;
use crate::bus::journal::read_address;
use crate::store::Time;
use crate::types::message::Address;
use crate::types::session::{TurnId, TurnOutcome};

/// A call that was pending when the backup was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// The address for its result, or the one where it was asked about.
    pub to: Address,
    pub tool: String,
}

/// The turns that were in progress when the backup was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTurns {
    pub count: usize,
    /// Their calls that waited for an approval.
    pub calls: Vec<PendingCall>,
}

/// Ends all running and suspended turns, with their calls and questions.
pub fn end_turns(store: &Connection) -> rusqlite::Result<EndedTurns> {
    let calls = calls_by(
        store,
        "SELECT a.channel, a.chat, a.thread, c.tool FROM asks a JOIN calls c ON c.id = a.call
         WHERE a.state = 'open' AND a.kind = 'approval' ORDER BY a.id",
        None,
    )?;
    let mut rows = store.prepare("SELECT id FROM turns WHERE ending IS NULL ORDER BY id")?;
    let open = rows.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<TurnId>>>()?;
    for turn in &open {
        transcript::end_turn(store, *turn, TurnOutcome::Stopped)?;
    }
    store.execute("UPDATE asks SET state = 'cancelled', shown = NULL WHERE state = 'open'", [])?;
    Ok(EndedTurns { count: open.len(), calls })
}

/// Drops the calls that nobody could be asked about: approved ones that wait for others, those whose report is held
/// back, and those that people were shown and that could be approved when the backup was made, because they may have
/// been made since. Returns them, oldest first. Also drops those of turns that have ended without a report.
pub fn end_calls(store: &Connection, made: DateTime<Utc>) -> rusqlite::Result<Vec<PendingCall>> {
    let pending = calls_by(
        store,
        "SELECT channel, chat, thread, tool FROM deferred_calls WHERE queued = 1 OR held = 1
         OR (state = 'open' AND untold IS NULL AND expires > ?) ORDER BY id",
        Some(made),
    )?;
    store.execute(
        "UPDATE deferred_calls SET untold = NULL, turn = NULL, held = 0, queued = 0, state = 'denied'
         WHERE state = 'open' OR queued = 1 OR held = 1 OR untold IS NOT NULL",
        [],
    )?;
    Ok(pending)
}

/// Reads calls by a query that gives the columns of an address and the tool, and takes a time if there is one.
fn calls_by(
    store: &Connection,
    sql: &str,
    at: Option<DateTime<Utc>>,
) -> rusqlite::Result<Vec<PendingCall>> {
    let mut rows = store.prepare(sql)?;
    let at = at.map(Time);
    let calls = rows.query_map(params_from_iter(at), |row| {
        Ok(PendingCall { to: read_address(row)?, tool: row.get(3)? })
    })?;
    calls.collect()
}

/// The permanent approvals that differ between a backup and the home that it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantChanges {
    /// Those that were revoked since, and are revoked again.
    pub taken: Vec<Grant>,
    /// Those that were given since, and are not kept.
    pub given: Vec<Grant>,
}

/// Returns all permanent approvals.
pub fn all_grants(store: &Connection) -> rusqlite::Result<Vec<Grant>> {
    let mut rows = store.prepare("SELECT channel, sender, tool FROM grants ORDER BY since")?;
    let grants = rows.query_map([], |row| {
        Ok(Grant { channel: row.get(0)?, sender: row.get(1)?, tool: row.get(2)? })
    })?;
    grants.collect()
}

/// Revokes the permanent approvals that the replaced home does not have any more.
pub fn keep_common_grants(store: &Connection, since: &[Grant]) -> rusqlite::Result<GrantChanges> {
    let backup = all_grants(store)?;
    let given = since.iter().filter(|grant| !backup.contains(*grant)).cloned().collect();
    let taken: Vec<_> = backup.into_iter().filter(|grant| !since.contains(grant)).collect();
    for Grant { channel, sender, tool } in &taken {
        store.execute(
            "DELETE FROM grants WHERE channel = ? AND sender = ? AND tool = ?",
            params![channel, sender, tool],
        )?;
    }
    Ok(GrantChanges { taken, given })
}
