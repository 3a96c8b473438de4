//! Subagents: tasks that a conversation has handed to another session. What follows from the end of one is decided
//! in `turn::background`.

use std::fmt;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal::{address_params, read_address, read_address_at, task_key};
use crate::conversation::sessions;
use crate::tasks::{self, Assignment, Ended, State, Terms};
use crate::types::message::{Address, Cause, MessageId, Place, Sender, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{CallId, SessionId, TurnId};
use crate::types::source::{Parts, Source};
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
    fn task(self) -> TaskId {
        TaskId::new(TaskKind::Subagent, self.0)
    }
}

impl fmt::Display for SubagentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One that works, and what asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subagent {
    pub id: SubagentId,
    pub task: String,
    pub origin: Origin,
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
    let (parent, to, sender, terms) = store
        .prepare_cached(
            "SELECT s.channel, s.chat, s.thread, s.id, s.place, t.sender, json_set(s.settings, '$.show_thinking', json('false'))
             FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = ?",
        )?
        .query_row([turn.0], |row| {
            let to = read_address(row)?;
            let terms = Terms {
                known_on: to.channel.clone(),
                place: from_json::<Place>(row, 4)?,
                settings: row.get(6)?,
            };
            Ok((row.get::<_, i64>(3)?, to, from_json::<Sender>(row, 5)?, terms))
        })?;
    let session = tasks::open_session(store, TaskKind::Subagent, &terms)?;
    store
        .prepare_cached(
            "INSERT INTO subagents (session, parent, call, task, state, begun)
             VALUES (?, ?, ?, ?, 'running', ?)",
        )?
        .execute(params![session.0, parent, call.0, task.text, Utc::now().timestamp_millis()])?;
    let id = SubagentId(store.last_insert_rowid());
    let task_id = id.task();
    let source =
        Source::Task { kind: TaskKind::Subagent, number: Some(id.0), read_others: task.tainted };
    let mut told = Parts::of(source, &task.text);
    if task.tainted {
        told.push_program(format!("\n(Whoever hands this on {}.)", untrusted::HAS_READ));
    }
    let (cause, key) = (Cause::Person(sender), task_key(task_id, None));
    let sources = told.spans().to_vec();
    let assignment = Assignment { text: &told, sources, cause, key, to };
    tasks::start(store, task_id, (session, &terms), assignment)?;
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

/// Those for which calls of a turn wait.
pub fn awaited_by(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<Subagent>> {
    let awaited = format!("{RUNNING} AND c.state = 'waiting' AND t.id = ? ORDER BY a.id");
    let mut rows = store.prepare_cached(&awaited)?;
    rows.query_map([turn.0], read)?.collect()
}

/// Settles one with its result; none if something else has ended it.
pub fn settle(
    store: &Connection,
    id: SubagentId,
    ended: Ended,
    result: &str,
) -> rusqlite::Result<Option<Subagent>> {
    let Some(subagent) = running(store, id)? else { return Ok(None) };
    let state = match ended {
        // Whoever asked gets a result in any case.
        Ended::Done | Ended::Silent => Ended::Done,
        Ended::Stopped | Ended::Skipped => Ended::Stopped,
        Ended::Failed | Ended::Interrupted => ended,
    };
    store
        .prepare_cached("UPDATE subagents SET state = ?, result = ?, ended = ? WHERE id = ?")?
        .execute(params![state.as_str(), result, Utc::now().timestamp_millis(), id.0])?;
    Ok(Some(subagent))
}

/// Forgets those that ended before a time, with their conversations, a slice at a time; returns how many
/// rows.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    sessions::prune_tasks(store, TaskKind::Subagent, before)
}

/// Where one was asked for.
pub fn asked_at(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<Address>> {
    store
        .prepare_cached(
            "SELECT p.channel, p.chat, p.thread FROM subagents a JOIN sessions p ON p.id = a.parent
             WHERE a.id = ?",
        )?
        .query_row([id.0], read_address)
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
    let asked_at = read_address_at(row, 4)?;
    Ok(Subagent {
        id,
        task: row.get(1)?,
        origin: id.task().origin(&asked_at.channel),
        parent: row.get::<_, bool>(3)?.then_some(SessionId(row.get(2)?)),
        asked_at,
        call: CallId(row.get(7)?),
        is_awaited: row.get(8)?,
        turn: TurnId(row.get(9)?),
        reply_to: row.get::<_, Option<String>>(10)?.map(Into::into),
    })
}

fn from_json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
    })
}
