//! Subagents: tasks that a conversation has handed to another session. What follows from the end of one is decided
//! in `turn::background`.

use std::fmt;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{address_params, task_key};
use crate::conversation::actions;
use crate::conversation::deferred::{ApprovedCall, DeferredCall};
use crate::conversation::sessions::{self, TurnSession};
use crate::conversation::task_sessions::{self, SessionTerms};
use crate::conversation::transcript::{self, CallTurn};
use crate::store::{LenientJson, Time, integer_columns};
use crate::tasks::assignment::{self, Assignment};
use crate::tasks::ended::{TaskOutcome, TaskState};
use crate::tasks::table::{self, Details, NewTask, RunningTask as Running, TaskResult};
use crate::types::message::{Address, Cause, MessageId, Sender, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{CallId, SessionId, Settings, TurnId};
use crate::types::source::{Parts, Source};
use crate::types::untrusted;

/// Subagents that are not done yet, in all conversations together; each costs tokens.
pub const AT_ONCE_MAX: usize = 4;

/// The task of a subagent that makes one call.
const ALLOWED: &str = "A call that was allowed:";

/// For the model: what is left to do after that call.
const TELL_THE_RESULT: &str = ".\nYour person has allowed the call that comes first here, exactly as it is. It is made \
     once. Then tell them briefly what came of it; make no other call.";

/// Maximum number of them in a list.
const LISTED_MAX: i64 = 10;

/// The task of a subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    pub text: String,
    /// True if the model that hands it on has read untrusted content.
    pub tainted: bool,
}

/// The call that hands a task to a subagent.
#[derive(Clone, Copy, Debug)]
pub struct DelegatingCall {
    pub turn: TurnId,
    pub call: CallId,
    /// A person began its turn, and can be asked.
    pub is_attended: bool,
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
pub struct RunningSubagent {
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
    /// True if the call waits for the end.
    pub is_awaited: bool,
    /// The message that the turn answers.
    pub reply_to: Option<MessageId>,
}

/// One in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSubagent {
    pub id: SubagentId,
    pub task: String,
    pub state: TaskState,
    pub begun: DateTime<Utc>,
}

/// Its details in the table of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Delegated {
    /// The conversation that asked.
    parent: SessionId,
    /// The call that began it.
    call: Option<CallId>,
    task: String,
    /// True if a run of a job asked, which nobody can be asked about.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_unattended: bool,
    /// The call for which alone it is, which somebody has allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    approved: Option<ApprovedCall>,
}

impl Default for Delegated {
    fn default() -> Self {
        // No session has this id.
        Self {
            parent: SessionId(0),
            call: None,
            task: String::new(),
            is_unattended: false,
            approved: None,
        }
    }
}

impl Details for Delegated {
    const KIND: TaskKind = TaskKind::Subagent;
}

/// Hands a task to a subagent on behalf of a call; none if too many work.
pub fn begin(
    store: &Connection,
    by: DelegatingCall,
    task: &SubagentTask,
) -> rusqlite::Result<Option<SubagentId>> {
    let DelegatingCall { turn, call, is_attended } = by;
    if table::count_running(store, TaskKind::Subagent)? >= AT_ONCE_MAX {
        return Ok(None);
    }
    let TurnSession { session: parent, at: to, chat_kind, settings, sender, .. } =
        sessions::of_turn(store, turn)?;
    // What the model thinks is no part of a result.
    let settings = Settings { show_thinking: false, ..settings };
    let terms = SessionTerms { known_on: to.channel.clone(), chat_kind, settings };
    let details = Delegated {
        parent,
        call: Some(call),
        task: task.text.clone(),
        is_unattended: !is_attended,
        approved: None,
    };
    start(store, NewSubagent { to, terms, sender, details, tainted: task.tainted })
}

/// Has a call made that somebody has allowed later, and the result told; none if too many work.
pub fn begin_approved(
    store: &Connection,
    deferred: DeferredCall,
) -> rusqlite::Result<Option<SubagentId>> {
    if table::count_running(store, TaskKind::Subagent)? >= AT_ONCE_MAX {
        return Ok(None);
    }
    let DeferredCall { call, approved, sender, known_on, chat_kind, to, tainted } = deferred;
    let terms = SessionTerms { known_on, chat_kind, settings: Settings::default() };
    // Its conversation knows what came of it.
    let parent = actions::session_at(store, &to)?.unwrap_or(SessionId(0));
    let task = format!("{ALLOWED} {}", approved.tool);
    let (call, approved) = (Some(call), Some(approved));
    let details = Delegated { parent, call, task, is_unattended: false, approved };
    start(store, NewSubagent { to, terms, sender, details, tainted })
}

/// Returns true if a person began the turn that asked for one, and can be asked.
pub fn is_attended(store: &Connection, id: SubagentId) -> rusqlite::Result<bool> {
    let task = table::running_number::<Delegated>(store, id.0)?;
    Ok(task.is_some_and(|task| !task.details.is_unattended))
}

/// The call that one may make, if it is for that alone.
pub fn approved_call(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<ApprovedCall>> {
    let task = table::running_number::<Delegated>(store, id.0)?;
    Ok(task.and_then(|task| task.details.approved))
}

/// A subagent that is to begin.
struct NewSubagent {
    to: Address,
    terms: SessionTerms,
    sender: Sender,
    details: Delegated,
    tainted: bool,
}

fn start(store: &Connection, new: NewSubagent) -> rusqlite::Result<Option<SubagentId>> {
    let NewSubagent { to, terms, sender, details, tainted } = new;
    let id = SubagentId(table::next_number(store, TaskKind::Subagent)?);
    let task_id = id.task();
    let session = task_sessions::open(store, task_id, &terms, &to)?;
    let mut text = details.task.clone();
    if details.approved.is_some() {
        text.push_str(TELL_THE_RESULT);
    }
    let (number, session) = (id.0, Some(session));
    let new = NewTask { number, due: None, session, to: &to, begun: Utc::now(), details };
    let Some(row) = table::begin(store, &new)? else { return Ok(None) };
    let source =
        Source::Task { kind: TaskKind::Subagent, number: Some(id.0), read_others: tainted };
    let mut told = Parts::of(source, &text);
    if tainted {
        told.push_program(format!("\n(Whoever hands this on {}.)", untrusted::HAS_READ));
    }
    let (cause, key) = (Cause::Person(sender), task_key(task_id, None));
    let sources = told.spans().to_vec();
    let assignment = Assignment { text: &told, sources, cause, key, to };
    let assigned = assignment::start(store, task_id, &terms, assignment)?;
    table::set_row(store, row, assigned, session)?;
    Ok(Some(id))
}

/// One that works, with what it works for; none if that was forgotten.
fn with_turn(
    store: &Connection,
    task: Running<Delegated>,
) -> rusqlite::Result<Option<(RunningSubagent, Option<SenderId>)>> {
    let (id, asked_at) = (SubagentId(task.number), task.to);
    let Delegated { parent, call, task, .. } = task.details;
    let Some(call) = call else { return Ok(None) };
    let Some(CallTurn { turn, is_waiting, reply_to, by }) = transcript::turn_of_call(store, call)?
    else {
        return Ok(None);
    };
    let subagent = RunningSubagent {
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

/// Those that work, the oldest first, each with the person for whom it does. There are [`AT_ONCE_MAX`].
fn all_running(store: &Connection) -> rusqlite::Result<Vec<(RunningSubagent, Option<SenderId>)>> {
    let mut found = Vec::new();
    for task in table::running(store)? {
        found.extend(with_turn(store, task)?);
    }
    Ok(found)
}

/// Those that work for a conversation at an address: all of them, or one person's.
pub fn running_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<RunningSubagent>> {
    let all = all_running(store)?.into_iter();
    let theirs = all.filter(|(it, by)| {
        it.asked_at == *at && whose.is_none_or(|whose| by.as_ref() == Some(whose))
    });
    Ok(theirs.map(|(subagent, _)| subagent).collect())
}

/// Those for which calls of a turn wait.
pub fn awaited_by(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<RunningSubagent>> {
    let all = all_running(store)?.into_iter().map(|(it, _)| it);
    Ok(all.filter(|it| it.is_awaited && it.turn == turn).collect())
}

/// Settles one with its result; none if something else has ended it.
pub fn settle(
    store: &Connection,
    id: SubagentId,
    ended: TaskOutcome,
    result: &str,
) -> rusqlite::Result<Option<RunningSubagent>> {
    let Some(task) = table::running_number(store, id.0)? else { return Ok(None) };
    let row = task.id;
    let subagent = with_turn(store, task)?;
    let ended = match ended {
        // Whoever asked gets a result in any case.
        TaskOutcome::Done | TaskOutcome::Silent | TaskOutcome::Repeated => TaskOutcome::Done,
        TaskOutcome::Stopped | TaskOutcome::Skipped => TaskOutcome::Stopped,
        TaskOutcome::Failed | TaskOutcome::Interrupted => ended,
    };
    let result = TaskResult { words: Some(result), tainted: false };
    table::settle(store, row, ended, Utc::now(), result)?;
    Ok(subagent.map(|(subagent, _)| subagent))
}

/// Where one that works was asked for.
pub fn asked_at(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<Address>> {
    Ok(table::running_number::<Delegated>(store, id.0)?.map(|task| task.to))
}

/// Those that work for the conversation at an address, and the last few that did.
pub fn list(store: &Connection, at: &Address) -> rusqlite::Result<Vec<ListedSubagent>> {
    let (channel, chat, thread) = address_params(at);
    let mut rows = store.prepare_cached(
        "SELECT number, details, state, begun FROM tasks WHERE kind = 'subagent'
         AND channel = ? AND chat = ? AND thread IS ? ORDER BY begun DESC, id DESC LIMIT ?",
    )?;
    rows.query_map(params![channel, chat, thread, LISTED_MAX], |row| {
        Ok(ListedSubagent {
            id: row.get(0)?,
            task: row.get::<_, LenientJson<Delegated>>(1)?.0.unwrap_or_default().task,
            state: row.get(2)?,
            begun: row.get::<_, Time>(3)?.0,
        })
    })?
    .collect()
}
