//! Calls that were not made because nobody could be asked. For a day, somebody entitled can approve each of them, to be
//! made once, exactly as shown.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{address_params, read_address};
use crate::store::{Json, Time, integer_columns, slice};
use crate::types::message::{Address, ChannelName, ChatKind, Sender};
use crate::types::session::CallId;

/// Time for which a call can be approved.
pub const VALID: Duration = Duration::hours(24);

/// The number of a deferred call, which people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeferredId(pub i64);

integer_columns!(DeferredId);

/// A call that may be made exactly in this form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedCall {
    pub tool: String,
    /// JSON.
    pub arguments: String,
}

/// A call that was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredCall {
    /// The refused call.
    pub call: CallId,
    pub approved: ApprovedCall,
    /// The person for whom it is made, and the channel on which they are known.
    pub sender: Sender,
    pub known_on: ChannelName,
    pub chat_kind: ChatKind,
    /// The address for its result.
    pub to: Address,
    /// True if its model had read untrusted content.
    pub tainted: bool,
}

/// Stores the calls that one message shows. Returns their numbers.
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

/// Returns a call that can still be made.
pub fn open(
    store: &Connection,
    id: DeferredId,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<DeferredCall>> {
    let found = store
        .prepare_cached(&format!("{OPEN} AND id = ?2"))?
        .query_row(params![Time(now), id], read_deferred)
        .optional()?;
    Ok(found.map(|(_, call)| call))
}

/// Returns the calls of the same message that can still be made, in their order.
pub fn open_with(
    store: &Connection,
    id: DeferredId,
    now: DateTime<Utc>,
) -> rusqlite::Result<Vec<(DeferredId, DeferredCall)>> {
    let mut rows = store.prepare_cached(&format!(
        "{OPEN} AND ifnull(batch, id) = (SELECT ifnull(batch, id) FROM deferred_calls WHERE id = ?2)
         ORDER BY id"
    ))?;
    rows.query_map(params![Time(now), id], read_deferred)?.collect()
}

/// Settles a call, so that it cannot be made any more.
pub fn settle(store: &Connection, id: DeferredId, is_made: bool) -> rusqlite::Result<()> {
    let state = if is_made { "made" } else { "denied" };
    store
        .prepare_cached("UPDATE deferred_calls SET state = ? WHERE id = ?")?
        .execute(params![state, id])?;
    Ok(())
}

/// Deletes a slice of the calls that expired before a time. Returns their number.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "DELETE FROM deferred_calls WHERE id IN
             (SELECT id FROM deferred_calls WHERE expires < ? ORDER BY expires LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}

fn read_deferred(row: &Row<'_>) -> rusqlite::Result<(DeferredId, DeferredCall)> {
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
