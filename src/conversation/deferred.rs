//! Calls that were not made because nobody could be asked. They are stored while their turn runs, and reported to people
//! when it ends. For a day from then, somebody entitled can approve each of them, to be made once, exactly as shown.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{address_params, read_address};
use crate::people::persons::PersonAccount;
use crate::store::{Json, LenientJson, Time, integer_columns, slice, text_columns};
use crate::types::call_files::CallFiles;
use crate::types::message::{Address, ChannelName, ChatKind, Sender};
use crate::types::session::{CallId, TurnId};
use crate::types::words::words;

/// Time for which a call can be approved.
pub const VALID: Duration = Duration::hours(24);

/// Maximum number of calls in a list.
const LISTED_MAX: usize = 20;

/// Maximum number of approved calls that wait for others. It is more than all calls of four reports.
pub const QUEUED_MAX: usize = 100;

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
    /// Its files as they were then. The approval covers no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<CallFiles>,
}

/// The person who may have a call made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterDecider {
    Admins,
    /// The person for whom it is made, and nobody else.
    Person,
    Nobody,
}

words!(LaterDecider { Admins = "admins", Person = "person", Nobody = "nobody" });

text_columns!(LaterDecider = |word| Self::parse(word).unwrap_or(Self::Nobody));

/// The terms on which people are told of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportTerms {
    pub to: Address,
    /// The name of the task that tried it.
    pub task: Option<String>,
    /// The change of a file that it would make, as a diff, if they may see the file. Older versions kept none.
    #[serde(default)]
    pub change: Option<String>,
    /// True if the change is one of a file as calls before it in the report leave it. Older versions never did so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follows: bool,
}

/// A call of which people were not told yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreportedCall {
    pub id: DeferredId,
    pub call: DeferredCall,
    pub terms: ReportTerms,
}

/// The calls of a turn that people were not told of, in their order.
#[derive(Debug, Default)]
pub struct UnreportedCalls {
    pub calls: Vec<UnreportedCall>,
    /// Those whose rows cannot be read, each with the address for its result.
    pub unreadable: Vec<(DeferredId, Address)>,
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
    pub decider: LaterDecider,
}

/// Keeps a call of a turn until people are told of all of them. The same call is kept once.
pub fn keep(
    store: &Connection,
    turn: TurnId,
    deferred: &DeferredCall,
    terms: &ReportTerms,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let DeferredCall { call, approved, sender, known_on, chat_kind, to, tainted, decider } =
        deferred;
    let is_kept = store
        .prepare_cached(
            "SELECT 1 FROM deferred_calls WHERE turn = ? AND tool = ? AND arguments = ?",
        )?
        .exists(params![turn, approved.tool, approved.arguments])?;
    if is_kept {
        return Ok(());
    }
    let (channel, chat, thread) = address_params(to);
    let state = if *decider == LaterDecider::Nobody { "denied" } else { "open" };
    store
        .prepare_cached(
            "INSERT INTO deferred_calls (call, tool, arguments, sender, known_on, chat_kind, channel,
                 chat, thread, tainted, expires, state, untold, turn, decider, files)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
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
            Time(now + VALID),
            state,
            Json(terms),
            turn,
            decider,
            approved.files.as_ref().map(Json)
        ])?;
    Ok(())
}

/// Returns the calls of a turn that people were not told of.
pub fn unreported(store: &Connection, turn: TurnId) -> rusqlite::Result<UnreportedCalls> {
    let mut rows = store.prepare_cached(&format!(
        "SELECT {COLUMNS}, untold, state = 'open' FROM deferred_calls
         WHERE turn = ? AND untold IS NOT NULL ORDER BY id"
    ))?;
    let rows = rows.query_map([turn], |row| {
        let (id, to): (DeferredId, _) = (row.get(3)?, read_address(row)?);
        Ok(read_unreported(row).map_err(|error| {
            tracing::warn!(%error, "Cannot read a call that nobody could be asked about");
            (id, to)
        }))
    })?;
    let mut unreported = UnreportedCalls::default();
    for row in rows {
        match row? {
            Ok(call) => unreported.calls.push(call),
            Err(unreadable) => unreported.unreadable.push(unreadable),
        }
    }
    Ok(unreported)
}

fn read_unreported(row: &Row<'_>) -> rusqlite::Result<UnreportedCall> {
    let (id, mut call) = read_deferred(row)?;
    // Its words were forgotten while it was held back.
    if !row.get::<_, bool>(14)? {
        call.decider = LaterDecider::Nobody;
    }
    Ok(UnreportedCall { id, call, terms: row.get::<_, Json<_>>(13)?.0 })
}

/// Notes that one message shows these calls to people. They are valid from now on.
pub fn mark_reported(
    store: &Connection,
    calls: &[DeferredId],
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let mut tell = store.prepare_cached(
        "UPDATE deferred_calls SET untold = NULL, turn = NULL, held = 0, batch = ?, expires = ? WHERE id = ?",
    )?;
    let first = calls.first();
    for id in calls {
        let batch = first.filter(|first| *first != id);
        tell.execute(params![batch, Time(now + VALID), id])?;
    }
    Ok(())
}

/// Has people told of the calls of a turn once the quiet hours are over.
pub fn hold(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE deferred_calls SET held = 1 WHERE turn = ?")?
        .execute([turn])
        .map(drop)
}

/// Returns true if people are to be told of calls when the quiet hours end.
pub fn is_any_held(store: &Connection) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM deferred_calls WHERE held = 1")?.exists([])
}

/// Returns the turns of the calls that are held back, the oldest first.
pub fn held_turns(store: &Connection) -> rusqlite::Result<Vec<TurnId>> {
    let mut turns = store.prepare_cached(
        "SELECT DISTINCT turn FROM deferred_calls WHERE held = 1 AND turn IS NOT NULL ORDER BY turn",
    )?;
    turns.query_map([], |row| row.get(0))?.collect()
}

/// Nothing is held back any more.
pub fn release(store: &Connection) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE deferred_calls SET held = 0 WHERE held = 1")?.execute([]).map(drop)
}

/// Drops the calls that are held back for the people of an address.
pub fn drop_held_at(store: &Connection, at: &Address) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE deferred_calls SET untold = NULL, turn = NULL, held = 0, state = 'denied'
             WHERE held = 1 AND channel = ? AND chat = ? AND thread IS ?",
        )?
        .execute(address_params(at))
        .map(drop)
}

/// Drops the calls of a turn that has ended, if people are not to be told of them.
pub fn drop_unreported(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE deferred_calls SET untold = NULL, turn = NULL, state = 'denied'
             WHERE turn = ? AND held = 0",
        )?
        .execute([turn])
        .map(drop)
}

/// Drops all calls for an account, also approved ones that wait.
pub fn drop_all_of(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE deferred_calls SET untold = NULL, turn = NULL, held = 0, queued = 0, state = 'denied'
             WHERE (state = 'open' OR queued = 1) AND known_on = ?
             AND iif(json_valid(sender), json_extract(sender, '$.id'), NULL) = ?",
        )?
        .execute(params![account.channel, account.sender])
        .map(drop)
}

/// The columns that `read_deferred` reads.
const COLUMNS: &str =
    "channel, chat, thread, id, call, tool, arguments, sender, known_on, chat_kind, tainted,
    decider, files";

/// The condition of those that can be made now.
const OPEN: &str = "state = 'open' AND untold IS NULL AND expires > ?1";

/// Returns a call that can still be made.
pub fn open(
    store: &Connection,
    id: DeferredId,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<DeferredCall>> {
    let found = store
        .prepare_cached(&format!("SELECT {COLUMNS} FROM deferred_calls WHERE {OPEN} AND id = ?2"))?
        .query_row(params![Time(now), id], read_deferred)
        .optional()?;
    Ok(found.map(|(_, call)| call))
}

/// Returns the calls of the same message that can still be made, in their order.
pub fn open_in_message_of(
    store: &Connection,
    id: DeferredId,
    now: DateTime<Utc>,
) -> rusqlite::Result<Vec<(DeferredId, DeferredCall)>> {
    let mut rows = store.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM deferred_calls WHERE {OPEN}
         AND ifnull(batch, id) = (SELECT ifnull(batch, id) FROM deferred_calls WHERE id = ?2)
         ORDER BY id"
    ))?;
    rows.query_map(params![Time(now), id], read_deferred)?.collect()
}

/// Returns the calls that can still be made and pass a filter, oldest first. Omits those that cannot be read.
pub fn all_open(
    store: &Connection,
    now: DateTime<Utc>,
    passes: impl Fn(&DeferredCall) -> rusqlite::Result<bool>,
) -> rusqlite::Result<Vec<(DeferredId, DeferredCall)>> {
    let mut rows = store.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM deferred_calls WHERE {OPEN} ORDER BY id"
    ))?;
    let mut passing = Vec::new();
    for row in rows.query_map([Time(now)], |row| Ok(read_deferred(row)))? {
        match row? {
            Ok(found) if passing.len() < LISTED_MAX && passes(&found.1)? => passing.push(found),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "Cannot list a call that can be allowed later"),
        }
    }
    Ok(passing)
}

/// Approves a call, which is made once those before it have ended. Returns false if too many wait.
pub fn queue(store: &Connection, id: DeferredId) -> rusqlite::Result<bool> {
    if queued(store)?.len() >= QUEUED_MAX {
        return Ok(false);
    }
    store
        .prepare_cached("UPDATE deferred_calls SET state = 'made', queued = 1 WHERE id = ?")?
        .execute([id])?;
    Ok(true)
}

/// Returns the approved calls that wait for others, in the order in which people were shown them. Omits those that cannot
/// be read.
pub fn queued(store: &Connection) -> rusqlite::Result<Vec<(DeferredId, DeferredCall)>> {
    let mut rows = store.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM deferred_calls WHERE queued = 1 ORDER BY id"
    ))?;
    let mut queued = Vec::new();
    for row in rows.query_map([], |row| Ok(read_deferred(row)))? {
        match row? {
            Ok(call) => queued.push(call),
            Err(error) => tracing::warn!(%error, "Cannot make a call that was allowed later"),
        }
    }
    Ok(queued)
}

/// Returns true if an approved call waits for others.
pub fn is_any_queued(store: &Connection) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM deferred_calls WHERE queued = 1")?.exists([])
}

/// Drops the approved calls that wait and that cannot be read. Returns the addresses for their results.
pub fn drop_unreadable_queued(store: &Connection) -> rusqlite::Result<Vec<Address>> {
    let mut rows =
        store.prepare_cached(&format!("SELECT {COLUMNS} FROM deferred_calls WHERE queued = 1"))?;
    let rows = rows.query_map([], |row| {
        let id: DeferredId = row.get(3)?;
        Ok(read_deferred(row).err().map(|_| (id, read_address(row).ok())))
    })?;
    let unreadable = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten();
    let mut addresses = Vec::new();
    for (id, to) in unreadable {
        settle(store, id, false)?;
        addresses.extend(to);
    }
    Ok(addresses)
}

/// Settles a call, so that it cannot be made any more.
pub fn settle(store: &Connection, id: DeferredId, is_made: bool) -> rusqlite::Result<()> {
    let state = if is_made { "made" } else { "denied" };
    store
        .prepare_cached("UPDATE deferred_calls SET state = ?, queued = 0 WHERE id = ?")?
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
        approved: ApprovedCall {
            tool: row.get(5)?,
            arguments: row.get(6)?,
            files: row.get::<_, LenientJson<_>>(12)?.0,
        },
        sender: row.get::<_, Json<_>>(7)?.0,
        known_on: row.get(8)?,
        chat_kind: row.get::<_, Json<_>>(9)?.0,
        tainted: row.get(10)?,
        decider: row.get(11)?,
    };
    Ok((row.get(3)?, deferred))
}
