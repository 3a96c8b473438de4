//! Subagents: errands that a conversation has handed on. What follows from the end of one is decided
//! in `turn::commits`.

use std::fmt;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal::address_params;
use crate::conversation::errands::{self, Errand, Handed, Kind, Terms};
use crate::types::message::{Address, Cause, MessageId, Place, Sender, SenderId};
use crate::types::session::{CallId, SessionId, TurnId};
use crate::types::untrusted;

/// Subagents that are not done yet, in all conversations together; each costs tokens.
pub const AT_ONCE_MAX: usize = 4;

/// How many of them are listed.
const LISTED_MAX: i64 = 10;

/// What a subagent is handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub text: String,
    /// Who hands it on has read what strangers wrote.
    pub tainted: bool,
}

/// A subagent, by the number that people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubagentId(pub i64);

impl SubagentId {
    fn errand(self) -> Errand {
        Errand { kind: Kind::Subagent, number: self.0 }
    }
}

impl fmt::Display for SubagentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Done,
    /// The model was told what went wrong.
    Failed,
    Stopped,
    /// It was cut off too often.
    Interrupted,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
        }
    }

    fn parse(text: &str) -> Self {
        let all = [Self::Running, Self::Done, Self::Failed, Self::Stopped];
        all.into_iter().find(|state| state.as_str() == text).unwrap_or(Self::Interrupted)
    }
}

/// One that works, and what asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subagent {
    pub id: SubagentId,
    pub task: String,
    /// Its own address.
    pub at: Address,
    /// The conversation that asked, while it is open.
    pub parent: Option<SessionId>,
    /// Where that is.
    pub asked_at: Address,
    /// The call that asked, and its turn.
    pub call: CallId,
    pub turn: TurnId,
    /// Whether the call waits for the end.
    pub is_awaited: bool,
    /// The message that the turn answers.
    pub reply_to: Option<MessageId>,
}

/// One in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub id: SubagentId,
    pub task: String,
    pub state: State,
    pub begun: DateTime<Utc>,
}

/// Hands a task to a subagent on behalf of a call; none if too many work.
pub fn begin(
    store: &Connection,
    (turn, call): (TurnId, CallId),
    task: &Task,
) -> rusqlite::Result<Option<SubagentId>> {
    if count_running(store)? >= AT_ONCE_MAX {
        return Ok(None);
    }
    // What the model thinks is no part of a result.
    let (parent, sender, terms) = store
        .prepare_cached(
            "SELECT s.id, s.channel, s.place, t.sender, json_set(s.settings, '$.show_thinking', json('false'))
             FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = ?",
        )?
        .query_row([turn.0], |row| {
            let terms = Terms {
                known_on: row.get::<_, String>(1)?.into(),
                place: from_json::<Place>(row, 2)?,
                settings: row.get(4)?,
            };
            Ok((row.get::<_, i64>(0)?, from_json::<Sender>(row, 3)?, terms))
        })?;
    let session = errands::open(store, Kind::Subagent, &terms)?;
    store
        .prepare_cached(
            "INSERT INTO subagents (session, parent, call, task, state, begun)
             VALUES (?, ?, ?, ?, 'running', ?)",
        )?
        .execute(params![session.0, parent, call.0, task.text, Utc::now().timestamp_millis()])?;
    let id = SubagentId(store.last_insert_rowid());
    let errand = id.errand();
    let told = match task.tainted {
        true => format!("{}\n(Whoever hands this on {}.)", task.text, untrusted::HAS_READ),
        false => task.text.clone(),
    };
    let handed = Handed { text: &told, cause: Cause::Person(sender), key: errand.key(None) };
    errands::hand(store, errand, (session, &terms), handed)?;
    Ok(Some(id))
}

fn count_running(store: &Connection) -> rusqlite::Result<usize> {
    store
        .prepare_cached("SELECT count(*) FROM subagents WHERE state = 'running'")?
        .query_row([], |row| row.get(0))
}

const RUNNING: &str = "SELECT a.id, a.task, p.id, p.closed IS NULL, p.channel, p.chat, p.thread,
    c.id, c.state = 'waiting', t.id, t.reply_to
    FROM subagents a JOIN sessions p ON p.id = a.parent JOIN calls c ON c.id = a.call
    JOIN turns t ON t.id = c.turn WHERE a.state = 'running'";

fn running(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<Subagent>> {
    store.prepare_cached(&format!("{RUNNING} AND a.id = ?"))?.query_row([id.0], read).optional()
}

/// Those that work for a conversation at an address: all of them, or one person's.
pub fn running_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Subagent>> {
    let mut rows = store.prepare_cached(&format!(
        "{RUNNING} AND p.channel = ?1 AND p.chat = ?2 AND p.thread IS ?3
         AND (?4 IS NULL OR iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL) = ?4)
         ORDER BY a.id"
    ))?;
    let (channel, chat, thread) = address_params(at);
    rows.query_map(params![channel, chat, thread, whose.map(SenderId::as_str)], read)?.collect()
}

/// Ends one, and its session; none if something else has ended it.
pub fn end(
    store: &Connection,
    id: SubagentId,
    state: State,
    result: &str,
) -> rusqlite::Result<Option<Subagent>> {
    let Some(subagent) = running(store, id)? else { return Ok(None) };
    let now = Utc::now().timestamp_millis();
    store
        .prepare_cached("UPDATE subagents SET state = ?, result = ?, ended = ? WHERE id = ?")?
        .execute(params![state.as_str(), result, now, id.0])?;
    store
        .prepare_cached(
            "UPDATE sessions SET closed = ? WHERE id = (SELECT session FROM subagents WHERE id = ?)",
        )?
        .execute([now, id.0])?;
    Ok(Some(subagent))
}

/// Forgets those that ended before a time, with their conversations, a slice at a time; returns how many
/// rows.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    errands::prune(store, Kind::Subagent, before)
}

/// Where one was asked for.
pub fn asked_at(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<Address>> {
    store
        .prepare_cached(
            "SELECT p.channel, p.chat, p.thread FROM subagents a JOIN sessions p ON p.id = a.parent
             WHERE a.id = ?",
        )?
        .query_row([id.0], |row| read_place(row, 0))
        .optional()
}

/// Those that work for the conversation at an address, and the last few that did.
pub fn list(store: &Connection, at: &Address) -> rusqlite::Result<Vec<Listed>> {
    let mut rows = store.prepare_cached(
        "SELECT a.id, a.task, a.state, a.begun FROM subagents a JOIN sessions p ON p.id = a.parent
         WHERE p.channel = ? AND p.chat = ? AND p.thread IS ? ORDER BY a.id DESC LIMIT ?",
    )?;
    let (channel, chat, thread) = address_params(at);
    rows.query_map(params![channel, chat, thread, LISTED_MAX], |row| {
        Ok(Listed {
            id: SubagentId(row.get(0)?),
            task: row.get(1)?,
            state: State::parse(row.get_ref(2)?.as_str()?),
            begun: DateTime::from_timestamp_millis(row.get(3)?).unwrap_or_default(),
        })
    })?
    .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Subagent> {
    let id = SubagentId(row.get(0)?);
    let asked_at = read_place(row, 4)?;
    Ok(Subagent {
        id,
        task: row.get(1)?,
        at: id.errand().address(&asked_at.channel),
        parent: row.get::<_, bool>(3)?.then_some(SessionId(row.get(2)?)),
        asked_at,
        call: CallId(row.get(7)?),
        is_awaited: row.get(8)?,
        turn: TurnId(row.get(9)?),
        reply_to: row.get::<_, Option<String>>(10)?.map(Into::into),
    })
}

/// The address in the columns from `first` on.
fn read_place(row: &Row<'_>, first: usize) -> rusqlite::Result<Address> {
    Ok(Address {
        channel: row.get::<_, String>(first)?.into(),
        chat: row.get::<_, String>(first + 1)?.into(),
        thread: row.get::<_, Option<String>>(first + 2)?.map(Into::into),
    })
}

fn from_json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
    })
}
