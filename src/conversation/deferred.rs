//! Calls that were not made because nobody could be asked. For a day, somebody entitled can have each of them made once,
//! exactly as it was shown.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{address_params, read_address};
use crate::store::{Json, Time, integer_columns, slice};
use crate::types::message::{Address, ChannelName, ChatKind, Sender};
use crate::types::session::CallId;

/// The time for which a call can be made.
pub const VALID: Duration = Duration::hours(24);

/// A deferred call, by the number that people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeferredId(pub i64);

integer_columns!(DeferredId);

/// A call that may be made exactly so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedCall {
    pub tool: String,
    /// As JSON.
    pub arguments: String,
}

/// A call that was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredCall {
    /// The refused one.
    pub call: CallId,
    pub approved: ApprovedCall,
    /// The person for whom it is made, and the channel on which they are known.
    pub sender: Sender,
    pub known_on: ChannelName,
    pub chat_kind: ChatKind,
    /// Where its result goes.
    pub to: Address,
    /// Its model had read untrusted content.
    pub tainted: bool,
}

/// Keeps the calls that one message shows; returns their numbers.
pub fn put(
    store: &Connection,
    calls: &[DeferredCall],
    now: DateTime<Utc>,
) -> rusqlite::Result<Vec<DeferredId>> {
    let mut ids = Vec::new();
    for deferred in calls {
        let DeferredCall { call, approved, sender, known_on, chat_kind, to, tainted } = deferred;
        let (channel, chat, thread) = address_params(to);
        store
            .prepare_cached(
                "INSERT INTO deferred_calls (batch, call, tool, arguments, sender, known_on, chat_kind, channel,
                     chat, thread, tainted, expires, state)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')",
            )?
            .execute(params![
                ids.first(),
                call,
                approved.tool,
                approved.arguments,
                Json(sender),
                known_on,
                Json(chat_kind),
                channel,
                chat,
                thread,
                tainted,
                Time(now + VALID)
            ])?;
        ids.push(DeferredId(store.last_insert_rowid()));
    }
    Ok(ids)
}

const OPEN: &str =
    "SELECT channel, chat, thread, id, call, tool, arguments, sender, known_on, chat_kind, tainted
     FROM deferred_calls WHERE state = 'open' AND expires > ?1";

/// One that can still be made.
pub fn open(
    store: &Connection,
    id: DeferredId,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<DeferredCall>> {
    let found = store
        .prepare_cached(&format!("{OPEN} AND id = ?2"))?
        .query_row(params![Time(now), id], read)
        .optional()?;
    Ok(found.map(|(_, call)| call))
}

/// Those that can still be made and were shown with it, in their order.
pub fn open_with(
    store: &Connection,
    id: DeferredId,
    now: DateTime<Utc>,
) -> rusqlite::Result<Vec<(DeferredId, DeferredCall)>> {
    let mut rows = store.prepare_cached(&format!(
        "{OPEN} AND ifnull(batch, id) = (SELECT ifnull(batch, id) FROM deferred_calls WHERE id = ?2)
         ORDER BY id"
    ))?;
    rows.query_map(params![Time(now), id], read)?.collect()
}

/// Decides one; it cannot be made again.
pub fn settle(store: &Connection, id: DeferredId, is_made: bool) -> rusqlite::Result<()> {
    let state = if is_made { "made" } else { "denied" };
    store
        .prepare_cached("UPDATE deferred_calls SET state = ? WHERE id = ?")?
        .execute(params![state, id])?;
    Ok(())
}

/// Forgets those that expired before a time, a slice at a time; returns how many.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "DELETE FROM deferred_calls WHERE id IN
             (SELECT id FROM deferred_calls WHERE expires < ? ORDER BY expires LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}

fn read(row: &Row<'_>) -> rusqlite::Result<(DeferredId, DeferredCall)> {
    let deferred = DeferredCall {
        to: read_address(row)?,
        call: row.get(4)?,
        approved: ApprovedCall { tool: row.get(5)?, arguments: row.get(6)? },
        sender: row.get::<_, Json<_>>(7)?.0,
        known_on: row.get(8)?,
        chat_kind: row.get::<_, Json<_>>(9)?.0,
        tainted: row.get(10)?,
    };
    Ok((row.get(3)?, deferred))
}
