//! Subagents: tasks that a conversation has handed to turns of their own. Each has a session and an
//! address of its own, where its task waits like any message. What follows from its end is decided in
//! `agent::commits`.

use std::fmt;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal;
use crate::message::{
    Address, Cause, ChannelName, Inbound, MessageId, Place, Said, Sender, SenderId,
};
use crate::session::{CallId, SessionId, TurnId};
use crate::tools::{Task, foreign};

/// Subagents that are not done yet, in all conversations together; each costs tokens.
pub const AT_ONCE_MAX: usize = 4;

/// How many of them are listed.
const LISTED_MAX: i64 = 10;

/// The channel of their addresses. No channel of the config can have this name.
const CHANNEL: &str = "(subagent)";

/// A subagent, by the number that people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubagentId(pub i64);

impl SubagentId {
    /// Whose address it is.
    pub fn of(address: &Address) -> Option<Self> {
        let is_one = address.channel.as_str() == CHANNEL;
        is_one.then(|| address.chat.as_str().parse().ok().map(Self)).flatten()
    }

    /// Its own: its number, and in place of a thread the channel on which it was asked for, so that
    /// nothing need be looked up to know whether that is here and who is known there.
    fn address(self, asked_on: &ChannelName) -> Address {
        Address {
            channel: CHANNEL.into(),
            chat: self.0.to_string().into(),
            thread: Some(asked_on.as_str().into()),
        }
    }
}

impl fmt::Display for SubagentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The channel on which people are known who speak at an address: of a subagent's, that on which it was
/// asked for.
pub fn channel_of(address: &Address) -> ChannelName {
    match (SubagentId::of(address), &address.thread) {
        (Some(_), Some(asked_on)) => asked_on.as_str().into(),
        _ => address.channel.clone(),
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

/// What a subagent's session is begun with.
struct Beginning {
    parent: i64,
    asked_on: ChannelName,
    place: String,
    sender: String,
    settings: String,
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
    let now = Utc::now();
    // What the model thinks is no part of a result.
    let beginning = store
        .prepare_cached(
            "SELECT s.id, s.channel, s.place, t.sender, json_set(s.settings, '$.show_thinking', json('false'))
             FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = ?",
        )?
        .query_row([turn.0], |row| {
            Ok(Beginning {
                parent: row.get(0)?,
                asked_on: row.get::<_, String>(1)?.into(),
                place: row.get(2)?,
                sender: row.get(3)?,
                settings: row.get(4)?,
            })
        })?;
    let (place, settings) = (&beginning.place, &beginning.settings);
    store
        .prepare_cached(
            "INSERT INTO sessions (channel, chat, thread, place, opened, kind, settings)
             VALUES (?, '', ?, ?, ?, 'subagent', ?)",
        )?
        .execute(params![
            CHANNEL,
            beginning.asked_on.as_str(),
            place,
            now.timestamp_millis(),
            settings
        ])?;
    let session = store.last_insert_rowid();
    store
        .prepare_cached(
            "INSERT INTO subagents (session, parent, call, task, state, begun)
             VALUES (?, ?, ?, ?, 'running', ?)",
        )?
        .execute(params![session, beginning.parent, call.0, task.text, now.timestamp_millis()])?;
    let id = SubagentId(store.last_insert_rowid());
    store
        .prepare_cached("UPDATE sessions SET chat = ? WHERE id = ?")?
        .execute(params![id.0.to_string(), session])?;
    let from = id.address(&beginning.asked_on);
    let told = match task.tainted {
        true => format!("{}\n(Whoever hands this on {}.)", task.text, foreign::HAS_READ),
        false => task.text.clone(),
    };
    let inbound = Inbound {
        key: format!("{CHANNEL}:{id}").into(),
        at: now,
        from,
        place: from_json::<Place>(place, 2)?,
        within: Vec::new(),
        cause: Cause::Person(from_json::<Sender>(&beginning.sender, 3)?),
        id: None,
        body: Said::text(told),
    };
    journal::add(store, &inbound, false, None)?;
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
        "{RUNNING} AND p.channel = ? AND p.chat = ? AND p.thread IS ?
         AND json_extract(t.sender, '$.id') = ifnull(?, json_extract(t.sender, '$.id')) ORDER BY a.id"
    ))?;
    let (channel, chat, thread) = place(at);
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
    let (channel, chat, thread) = place(at);
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
        at: id.address(&asked_at.channel),
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

fn place(at: &Address) -> (&str, &str, Option<&str>) {
    (at.channel.as_str(), at.chat.as_str(), at.thread.as_ref().map(|thread| thread.as_str()))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
    })
}
