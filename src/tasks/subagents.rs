//! Subagents: tasks that a conversation has handed to another session. What follows from the end of one is decided
//! in `turn::background`.

use std::fmt;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal::task_key;
use crate::conversation::sessions::{self, TurnSession};
use crate::conversation::task_sessions::{self, Terms};
use crate::conversation::transcript::{self, CallTurn};
use crate::store::{Time, integer_columns};
use crate::tasks::{self, Assignment, DEPENDENTS, Ended, State};
use crate::types::message::{Address, Cause, MessageId, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{CallId, SessionId, Settings, TurnId};
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

integer_columns!(SubagentId);

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
    turn: TurnId,
    call: CallId,
    task: &Task,
) -> rusqlite::Result<Option<SubagentId>> {
    if count_running(store)? >= AT_ONCE_MAX {
        return Ok(None);
    }
    let TurnSession { session: parent, at: to, place, settings, sender } =
        sessions::of_turn(store, turn)?;
    // What the model thinks is no part of a result.
    let settings = Settings { show_thinking: false, ..settings };
    let terms = Terms { known_on: to.channel.clone(), place, settings };
    let session = task_sessions::open(store, TaskKind::Subagent, &terms, &to)?;
    store
        .prepare_cached(
            "INSERT INTO subagents (session, parent, call, task, state, begun)
             VALUES (?, ?, ?, ?, 'running', ?)",
        )?
        .execute(params![session, parent, call, task.text, Time::now()])?;
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
    tasks::start(store, task_id, session, &terms, assignment)?;
    Ok(Some(id))
}

fn count_running(store: &Connection) -> rusqlite::Result<usize> {
    store
        .prepare_cached("SELECT count(*) FROM subagents WHERE state = 'running'")?
        .query_row([], |row| row.get(0))
}

const RUNNING: &str =
    "SELECT id, session, parent, call, task FROM subagents WHERE state = 'running'";

/// A row of one that works.
struct Head {
    id: SubagentId,
    session: SessionId,
    parent: SessionId,
    call: Option<CallId>,
    task: String,
}

fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head {
        id: row.get(0)?,
        session: row.get(1)?,
        parent: row.get(2)?,
        call: row.get(3)?,
        task: row.get(4)?,
    })
}

fn running(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<Subagent>> {
    let head =
        store.prepare_cached(&format!("{RUNNING} AND id = ?"))?.query_row([id], head).optional()?;
    let found = head.map_or(Ok(None), |head| with_turn(store, head))?;
    Ok(found.map(|(subagent, _)| subagent))
}

/// Those that work, the oldest first, each with the person for whom it does. There are [`AT_ONCE_MAX`].
fn all_running(store: &Connection) -> rusqlite::Result<Vec<(Subagent, Option<SenderId>)>> {
    let mut rows = store.prepare_cached(&format!("{RUNNING} ORDER BY id"))?;
    let mut found = Vec::new();
    for head in rows.query_map([], head)? {
        found.extend(with_turn(store, head?)?);
    }
    Ok(found)
}

/// One that works, with what it works for; none if that was forgotten.
fn with_turn(
    store: &Connection,
    head: Head,
) -> rusqlite::Result<Option<(Subagent, Option<SenderId>)>> {
    let Head { id, session, parent, call, task } = head;
    let Some(call) = call else { return Ok(None) };
    let Some(CallTurn { turn, is_waiting, reply_to, by }) = transcript::turn_of_call(store, call)?
    else {
        return Ok(None);
    };
    let Some(asked_at) = task_sessions::people_at(store, session)? else { return Ok(None) };
    let subagent = Subagent {
        id,
        task,
        origin: id.task().origin(&asked_at.channel),
        parent: transcript::is_open(store, parent)?.then_some(parent),
        asked_at,
        call,
        is_awaited: is_waiting,
        turn,
        reply_to,
    };
    Ok(Some((subagent, by)))
}

/// Those that work for a conversation at an address: all of them, or one person's.
pub fn running_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Subagent>> {
    let all = all_running(store)?.into_iter();
    let theirs = all.filter(|(it, by)| {
        it.asked_at == *at && whose.is_none_or(|whose| by.as_ref() == Some(whose))
    });
    Ok(theirs.map(|(subagent, _)| subagent).collect())
}

/// Those for which calls of a turn wait.
pub fn awaited_by(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<Subagent>> {
    let all = all_running(store)?.into_iter().map(|(it, _)| it);
    Ok(all.filter(|it| it.is_awaited && it.turn == turn).collect())
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
        .execute(params![state, result, Time::now(), id])?;
    Ok(Some(subagent))
}

/// Returns true if a subagent works in a conversation, or for it.
pub(super) fn needs_session(store: &Connection, session: SessionId) -> rusqlite::Result<bool> {
    for column in ["session", "parent"] {
        let works = format!("{RUNNING} AND {column} = ?");
        if store.prepare_cached(&works)?.exists([session])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Forgets the subagents of a conversation, which is deleted next.
pub(super) fn forget_session(store: &Connection, session: SessionId) -> rusqlite::Result<()> {
    store
        .prepare_cached("DELETE FROM subagents WHERE session = ?1 OR parent = ?1")?
        .execute([session])
        .map(drop)
}

/// Forgets those that ended before a time, with their conversations, a slice at a time; returns how many
/// rows.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    task_sessions::prune(store, TaskKind::Subagent, before, &DEPENDENTS)
}

/// Where one was asked for.
pub fn asked_at(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<Address>> {
    let session = store
        .prepare_cached("SELECT session FROM subagents WHERE id = ?")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    session.map_or(Ok(None), |session| task_sessions::people_at(store, session))
}

/// Those that work for the conversation at an address, and the last few that did.
pub fn list(store: &Connection, at: &Address) -> rusqlite::Result<Vec<Listed>> {
    let mut of =
        store.prepare_cached("SELECT id, task, state, begun FROM subagents WHERE session = ?")?;
    let mut found = Vec::new();
    for session in task_sessions::last_for(store, TaskKind::Subagent, at, LISTED_MAX)? {
        let listed = of.query_row([session], |row| {
            Ok(Listed {
                id: row.get(0)?,
                task: row.get(1)?,
                state: row.get(2)?,
                begun: row.get::<_, Time>(3)?.0,
            })
        });
        found.extend(listed.optional()?);
    }
    Ok(found)
}
