//! Questions to people on behalf of a call that waits for them: an approval, or a question of the model.
//! Each is settled once, by an answer, its timeout or the end of its turn, whichever comes first. Not here:
//! the consequences (`agent::suspended`).

mod settings;

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::types::{ToSql, ToSqlOutput};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{self, RowId, read_address_at, read_origin_at};
use crate::bus::outbox;
use crate::people::persons::PersonAccount;
use crate::store::{Json, LenientJson, Time, integer_columns, slice, text_columns};
use crate::types::call_files::CallFiles;
use crate::types::message::{Address, Body, ChannelName, ChatKind, DeliveryId, Sender, SenderId};
use crate::types::origin::Origin;
use crate::types::role::Role;
use crate::types::session::{CallId, TurnId};
use crate::types::words::words;
pub use settings::{ApprovalSettings, Approvals, OnUntrusted};

/// Maximum number of questions in a list.
const LISTED_MAX: usize = 20;

/// The number of a question, which people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub i64);

integer_columns!(AskId);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskKind {
    /// A request to somebody entitled to approve the call.
    Approval,
    /// A question of the model to its person.
    Question,
}

words!(AskKind { Approval = "approval", Question = "question" });
text_columns!(AskKind = |text| Self::parse(text).unwrap_or(Self::Question));

/// A question that is about to be asked.
#[derive(Clone, Debug)]
pub struct NewAsk {
    pub turn: TurnId,
    pub call: CallId,
    pub kind: AskKind,
    pub at: Address,
    /// The person whose answer counts. None means anybody entitled.
    pub who: Option<SenderId>,
    pub time: Duration,
    /// True if the approval may be permanent.
    pub offers_always: bool,
    /// The parts of its call that an approval shows. None for a question.
    pub shown: Option<ShownCall>,
    /// The files of its call, which an approval covers.
    pub files: Option<CallFiles>,
}

/// The parts of a call that its approval shows next to the arguments. They are stored while it is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownCall {
    /// The reason for the approval, as the rest of a sentence.
    pub why: String,
    /// The difference that the call makes to a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The recipient of a message that reveals private content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tells: Option<String>,
    /// The least role that its tool needs. None if a former version asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Role>,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub id: AskId,
    pub turn: TurnId,
    pub call: CallId,
    pub kind: AskKind,
    pub delivery: DeliveryId,
    pub at: Address,
    pub who: Option<SenderId>,
    /// Rows of the journal up to this one do not count as answers.
    pub after: RowId,
}

/// The end of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    Settled,
    Expired,
    /// Its turn has ended.
    Cancelled,
}

words!(AskOutcome { Settled = "settled", Expired = "expired", Cancelled = "cancelled" });

impl ToSql for AskOutcome {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

/// Stores questions about calls at one address, as one batch, and queues the messages that `bodies` makes with their
/// numbers. Buttons of the last message answer them.
pub fn put(
    store: &Connection,
    new: &[NewAsk],
    bodies: impl FnOnce(&[AskId]) -> Vec<Body>,
) -> rusqlite::Result<()> {
    let Some(at) = new.first().map(|new| &new.at) else { return Ok(()) };
    let ids = new.iter().map(|new| insert(store, new)).collect::<rusqlite::Result<Vec<_>>>()?;
    for id in &ids {
        let mut batch = store.prepare_cached("UPDATE asks SET batch = ? WHERE id = ?")?;
        batch.execute(params![ids[0], id])?;
    }
    for body in bodies(&ids) {
        let delivery = outbox::put_body(store, at, &body)?;
        ids.iter().try_for_each(|id| set_delivery(store, *id, delivery))?;
    }
    Ok(())
}

/// Queues another message about a call that waits.
pub fn ask_again(store: &Connection, ask: &Ask, body: &Body) -> rusqlite::Result<()> {
    let delivery = outbox::put_body(store, &ask.at, body)?;
    set_delivery(store, ask.id, delivery)
}

fn set_delivery(store: &Connection, id: AskId, delivery: DeliveryId) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE asks SET delivery = ? WHERE id = ?")?
        .execute(params![delivery, id])?;
    Ok(())
}

fn insert(store: &Connection, new: &NewAsk) -> rusqlite::Result<AskId> {
    let NewAsk { turn, call, kind, at, who, time, offers_always, shown, files } = new;
    let expires = Utc::now() + *time;
    store
        .prepare_cached(
            "INSERT INTO asks (turn, call, kind, delivery, channel, chat, thread, who, after, expires,
                 offers_always, shown, files, state)
             VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')",
        )?
        .execute(params![
            turn,
            call,
            kind,
            at.channel,
            at.chat,
            at.thread,
            who,
            journal::last_row(store)?,
            Time(expires),
            offers_always,
            shown.as_ref().map(Json),
            files.as_ref().map(Json)
        ])?;
    Ok(AskId(store.last_insert_rowid()))
}

const OPEN: &str = "SELECT id, turn, call, kind, delivery, channel, chat, thread, who, after
    FROM asks WHERE state = 'open'";

/// Returns true if a turn has an open question.
pub fn has_open(store: &Connection, turn: TurnId) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM asks WHERE state = 'open' AND turn = ?")?.exists([turn])
}

/// Returns true if an approval has this number, also one that was decided.
pub fn is_known_approval(store: &Connection, id: AskId) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM asks WHERE id = ? AND kind = 'approval'")?.exists([id])
}

/// Returns the open questions of models, oldest first.
pub fn questions(store: &Connection) -> rusqlite::Result<Vec<Ask>> {
    let mut rows = store.prepare_cached(&format!("{OPEN} AND kind = 'question' ORDER BY id"))?;
    rows.query_map([], read)?.collect()
}

/// Returns the kind of chat of a question's conversation; a group if that cannot be read.
pub fn chat_kind_of(store: &Connection, ask: &Ask) -> rusqlite::Result<ChatKind> {
    let chat_kind = store
        .prepare_cached(
            "SELECT chat_kind FROM sessions WHERE id = (SELECT session FROM turns WHERE id = ?)",
        )?
        .query_row([ask.turn], |row| row.get::<_, LenientJson<_>>(0))?;
    Ok(chat_kind.0.unwrap_or(ChatKind::Group))
}

/// Returns a question of a model if it is open.
pub fn question(store: &Connection, id: AskId) -> rusqlite::Result<Option<Ask>> {
    let mut rows = store.prepare_cached(&format!("{OPEN} AND kind = 'question' AND id = ?"))?;
    rows.query_row([id], read).optional()
}

/// Returns the open questions whose timeout has passed.
pub fn overdue(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<Vec<Ask>> {
    let mut rows = store.prepare_cached(&format!("{OPEN} AND expires <= ? ORDER BY id"))?;
    rows.query_map([Time(now)], read)?.collect()
}

/// Returns the time of the next timeout.
pub fn next_expiry(store: &Connection) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let next = store
        .prepare_cached("SELECT min(expires) FROM asks WHERE state = 'open'")?
        .query_row([], |row| row.get::<_, Option<Time>>(0))?;
    Ok(next.map(|next| next.0))
}

/// Ends a question. Returns false if it has ended before. Once all questions of its message have ended, `text` replaces
/// the buttons, unless one was pressed.
pub fn end(
    store: &Connection,
    ask: &Ask,
    outcome: AskOutcome,
    text: &str,
) -> rusqlite::Result<bool> {
    let ended = store
        .prepare_cached("UPDATE asks SET state = ?, shown = NULL WHERE id = ? AND state = 'open'")?
        .execute(params![outcome, ask.id])?;
    if ended == 0 {
        return Ok(false);
    }
    let is_shared = store
        .prepare_cached("SELECT 1 FROM asks WHERE state = 'open' AND delivery = ?")?
        .exists([ask.delivery])?;
    if !is_shared {
        outbox::close_question(store, ask.delivery, text)?;
    }
    Ok(true)
}

/// Closes a question that cannot be ended, and stores its row for a person to look at. Returns false if it is not open.
pub fn close_unreadable(store: &Connection, ask: &Ask, why: &str) -> rusqlite::Result<bool> {
    let id = ask.id.0;
    let raw: Option<String> = store
        .prepare_cached(
            "UPDATE asks SET state = 'cancelled', shown = NULL WHERE id = ? AND state = 'open'
             RETURNING json_object('turn', turn, 'call', call, 'kind', kind, 'delivery', delivery,
                 'channel', channel, 'chat', chat, 'thread', thread, 'who', who, 'after', after,
                 'expires', expires)",
        )?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let Some(raw) = raw else { return Ok(false) };
    let (key, channel) = (format!("ask {id}"), ask.at.channel.as_str());
    journal::store_unreadable_row(store, &key, channel, &raw, why)?;
    Ok(true)
}

/// Ends the open questions of a turn.
pub fn cancel(store: &Connection, turn: TurnId, text: &str) -> rusqlite::Result<()> {
    let mut rows = store.prepare_cached(&format!("{OPEN} AND turn = ?"))?;
    let open: Vec<Ask> = rows.query_map([turn], read)?.collect::<Result<_, _>>()?;
    open.iter().try_for_each(|ask| end(store, ask, AskOutcome::Cancelled, text).map(drop))
}

/// An approval that somebody has given to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallApproval {
    /// The files of the call as people were shown them. It covers no others.
    pub files: Option<CallFiles>,
}

/// Returns the approvals of a turn's calls. A call that was asked about again has the last one.
pub fn given_approvals(
    store: &Connection,
    turn: TurnId,
) -> rusqlite::Result<HashMap<CallId, CallApproval>> {
    let mut rows = store.prepare_cached(
        "SELECT call, files FROM asks WHERE turn = ? AND kind = 'approval' AND state = 'settled'
         ORDER BY id",
    )?;
    let read = |row: &Row<'_>| {
        let files = row.get::<_, LenientJson<CallFiles>>(1)?.0;
        Ok((row.get(0)?, CallApproval { files }))
    };
    rows.query_map([turn], read)?.collect()
}

/// A permanent approval of a tool for one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub channel: String,
    pub sender: String,
    pub tool: String,
}

pub fn is_granted(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
    tool: &str,
) -> rusqlite::Result<bool> {
    store
        .prepare_cached("SELECT 1 FROM grants WHERE channel = ? AND sender = ? AND tool = ?")?
        .exists(params![channel, sender, tool])
}

pub fn grant(store: &Connection, grant: &Grant) -> rusqlite::Result<()> {
    let Grant { channel, sender, tool } = grant;
    store
        .prepare_cached(
            "INSERT OR IGNORE INTO grants (channel, sender, tool, since) VALUES (?, ?, ?, ?)",
        )?
        .execute(params![channel, sender, tool, Time::now()])?;
    Ok(())
}

/// Removes all permanent approvals of a tool. Returns their number.
pub fn revoke(store: &Connection, tool: &str) -> rusqlite::Result<usize> {
    store.prepare_cached("DELETE FROM grants WHERE tool = ?")?.execute([tool])
}

/// Removes all permanent approvals for an account.
pub fn revoke_all_of(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    store
        .prepare_cached("DELETE FROM grants WHERE channel = ? AND sender = ?")?
        .execute(params![account.channel, account.sender])
        .map(drop)
}

pub fn grants(store: &Connection) -> rusqlite::Result<Vec<Grant>> {
    let mut rows =
        store.prepare_cached("SELECT channel, sender, tool FROM grants ORDER BY since LIMIT ?")?;
    let limit = i64::try_from(LISTED_MAX).expect("a small number");
    let read =
        |row: &Row<'_>| Ok(Grant { channel: row.get(0)?, sender: row.get(1)?, tool: row.get(2)? });
    rows.query_map([limit], read)?.collect()
}

/// A call that waits for an approval.
#[derive(Clone, Debug)]
pub struct AskedCall {
    pub ask: Ask,
    pub tool: String,
    /// JSON.
    pub arguments: String,
    /// The person for whom it is made, and the kind of chat. None if they cannot be read.
    pub made_for: Option<(ChannelName, SenderId, ChatKind)>,
    /// The conversation in which it is made, if that can be read.
    pub origin: Option<Origin>,
    pub offers_always: bool,
    /// None if a former version asked the question, or if it cannot be read.
    pub shown: Option<ShownCall>,
    /// The files of the call as they were when people were asked.
    pub files: Option<CallFiles>,
}

impl AskedCall {
    /// Returns the account of the only person who may decide. None means anybody entitled.
    pub fn decider(&self) -> Option<PersonAccount> {
        let (channel, sender) = (self.ask.at.channel.clone(), self.ask.who.clone()?);
        Some(PersonAccount { channel, sender })
    }
}

const ASKED_CALLS: &str =
    "SELECT a.id, a.turn, a.call, a.kind, a.delivery, a.channel, a.chat, a.thread, a.who, a.after,
        s.channel, s.chat, s.thread, t.sender, s.chat_kind, c.tool, c.arguments, a.offers_always,
        a.shown, a.files
    FROM asks a JOIN calls c ON c.id = a.call JOIN turns t ON t.id = a.turn
    JOIN sessions s ON s.id = t.session
    WHERE a.state = 'open' AND a.kind = 'approval'";

/// Returns the open approvals that pass a filter, oldest first.
pub fn approvals(
    store: &Connection,
    passes: impl Fn(&AskedCall) -> rusqlite::Result<bool>,
) -> rusqlite::Result<Vec<AskedCall>> {
    let mut rows = store.prepare_cached(&format!("{ASKED_CALLS} ORDER BY a.id"))?;
    let mut passing = Vec::new();
    for call in rows.query_map([], read_call)? {
        let call = call?;
        if passing.len() < LISTED_MAX && passes(&call)? {
            passing.push(call);
        }
    }
    Ok(passing)
}

/// Returns the open approvals that were asked for together with an approval, which may be decided itself. Others of its
/// turn were asked for later, and who decides about these has not seen them.
pub fn approvals_asked_with(store: &Connection, id: AskId) -> rusqlite::Result<Vec<AskedCall>> {
    let mut rows = store.prepare_cached(&format!(
        "{ASKED_CALLS} AND a.batch = (SELECT batch FROM asks WHERE id = ?) ORDER BY a.id"
    ))?;
    rows.query_map([id], read_call)?.collect()
}

/// Returns an approval if it is open.
pub fn approval(store: &Connection, id: AskId) -> rusqlite::Result<Option<AskedCall>> {
    let mut rows = store.prepare_cached(&format!("{ASKED_CALLS} AND a.id = ?"))?;
    rows.query_row([id], read_call).optional()
}

fn read_call(row: &Row<'_>) -> rusqlite::Result<AskedCall> {
    let origin = read_origin_at(row, 10).ok();
    let made_for = origin.as_ref().and_then(|origin| {
        let sender: Json<Sender> = row.get(13).ok()?;
        let chat_kind: Json<ChatKind> = row.get(14).ok()?;
        Some((origin.channel().clone(), sender.0.id, chat_kind.0))
    });
    Ok(AskedCall {
        ask: read(row)?,
        tool: row.get(15)?,
        arguments: row.get(16)?,
        made_for,
        origin,
        offers_always: row.get(17)?,
        shown: row.get::<_, Option<LenientJson<_>>>(18)?.and_then(|shown| shown.0),
        files: row.get::<_, LenientJson<_>>(19)?.0,
    })
}

/// Deletes a slice of the settled questions that expired before a time and whose turns have ended. Returns their
/// number.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "DELETE FROM asks WHERE id IN (SELECT a.id FROM asks a JOIN turns t ON t.id = a.turn
             WHERE a.state <> 'open' AND a.expires < ? AND t.ending IS NOT NULL
             ORDER BY a.expires LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}

fn read(row: &Row<'_>) -> rusqlite::Result<Ask> {
    Ok(Ask {
        id: row.get(0)?,
        turn: row.get(1)?,
        call: row.get(2)?,
        kind: row.get(3)?,
        delivery: row.get(4)?,
        at: read_address_at(row, 5)?,
        who: row.get(8)?,
        after: row.get(9)?,
    })
}
