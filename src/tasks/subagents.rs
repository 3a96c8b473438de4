//! Subagents: tasks that a conversation has delegated to another session. Not here: the consequences of their end
//! (`turn::background`), and the order of approved calls (`approved.rs`).

mod approved;

use std::fmt;

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{self, address_params, task_key};
use crate::conversation::deferred::ApprovedCall;
use crate::conversation::sessions::{self, TurnSession};
use crate::conversation::task_sessions::{self, SessionTerms};
use crate::conversation::transcript::{self, CallTurn};
use crate::people::persons::PersonAccount;
use crate::store::{LenientJson, Time, integer_columns};
use crate::tasks::assignment::{self, Assignment};
use crate::tasks::outcome::{TaskOutcome, TaskState};
use crate::tasks::table::{self, Details, NewTask, RunningTask as Running, TaskResult};
use crate::types::message::{Address, Cause, MessageId, Sender, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{CallId, SessionId, Settings, TurnId};
use crate::types::source::{Author, Source, SourcedText};
use crate::types::untrusted;
pub use approved::{APPROVED_AT_ONCE_MAX, begin_queued, drop_queued_for};

/// Maximum number of running subagents with delegated tasks, in all conversations together. Each costs tokens.
pub const AT_ONCE_MAX: usize = 4;

/// Instructions for the model about the work after that call.
const TELL_THE_RESULT: &str = ".\nYour person has allowed the call that comes first here, exactly as it is. It is made \
     once. Then tell them briefly what came of it; make no other call.";

/// Time by which the clock may have been set back after a turn started.
const CLOCK_BACK_MAX: Duration = Duration::days(1);

/// Maximum number of subagents in a list.
const LISTED_MAX: i64 = 10;

/// The task of a subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    pub text: String,
    /// True if the model that delegates it has read untrusted content.
    pub tainted: bool,
}

/// The call that delegates a task to a subagent.
#[derive(Clone, Copy, Debug)]
pub struct DelegatingCall {
    pub turn: TurnId,
    pub call: CallId,
    /// True if a person began its turn, and can be asked.
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

/// A running subagent, and the call that delegated its task.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningSubagent {
    pub id: SubagentId,
    pub task: String,
    pub origin: Origin,
    /// The delegating conversation, while it is open.
    pub parent: Option<SessionId>,
    /// The address of that conversation.
    pub asked_at: Address,
    /// The delegating call, and its turn.
    pub call: CallId,
    pub turn: TurnId,
    /// True if the call waits for the end.
    pub is_awaited: bool,
    /// The message that the turn answers.
    pub reply_to: Option<MessageId>,
    /// The person of the turn, for whom it works.
    pub by: Option<Author>,
}

/// A subagent in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSubagent {
    pub id: SubagentId,
    pub task: String,
    pub state: TaskState,
    pub begun: DateTime<Utc>,
}

/// A subagent's details in the table of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct SubagentDetails {
    /// The delegating conversation.
    parent: SessionId,
    /// The delegating call.
    call: Option<CallId>,
    task: String,
    /// True if an unattended run delegated the task: nobody can be asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_unattended: bool,
    /// The approved call that is its only work.
    #[serde(skip_serializing_if = "Option::is_none")]
    approved: Option<ApprovedCall>,
}

impl Default for SubagentDetails {
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

impl Details for SubagentDetails {
    const KIND: TaskKind = TaskKind::Subagent;
}

/// Delegates a task to a new subagent on behalf of a call. None if too many are running.
pub fn begin(
    store: &Connection,
    by: DelegatingCall,
    task: &SubagentTask,
) -> rusqlite::Result<Option<SubagentId>> {
    let DelegatingCall { turn, call, is_attended } = by;
    if count_running(store)? >= AT_ONCE_MAX {
        return Ok(None);
    }
    let TurnSession { session: parent, at: to, chat_kind, settings, sender, .. } =
        sessions::of_turn(store, turn)?;
    // A subagent's result does not include its thinking.
    let settings = Settings { show_thinking: false, ..settings };
    let terms = SessionTerms { known_on: to.channel.clone(), chat_kind, settings };
    let details = SubagentDetails {
        parent,
        call: Some(call),
        task: task.text.clone(),
        is_unattended: !is_attended,
        approved: None,
    };
    start(store, NewSubagent { to, terms, sender, details, tainted: task.tainted })
}

/// Counts the running subagents with delegated tasks.
fn count_running(store: &Connection) -> rusqlite::Result<usize> {
    let running = table::running::<SubagentDetails>(store)?;
    Ok(running.iter().filter(|task| task.details.approved.is_none()).count())
}

/// Returns true if a person began the turn that delegated the task, and can be asked.
pub fn is_attended(store: &Connection, id: SubagentId) -> rusqlite::Result<bool> {
    let task = table::running_number::<SubagentDetails>(store, id.0)?;
    Ok(task.is_some_and(|task| !task.details.is_unattended))
}

/// Returns the turn that delegated the task of a running subagent. None if it was deleted.
pub fn delegating_turn(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<TurnId>> {
    let task = table::running_number::<SubagentDetails>(store, id.0)?;
    match task.and_then(|task| task.details.call) {
        Some(call) => Ok(transcript::turn_of_call(store, call)?.map(|call| call.turn)),
        None => Ok(None),
    }
}

/// Returns the turns of the subagents, running or not, to which a turn has delegated tasks.
pub fn delegated_turns(store: &Connection, by: TurnId) -> rusqlite::Result<Vec<TurnId>> {
    let mut turns = Vec::new();
    // A deleted turn has no calls either.
    let Some(started) = transcript::turn_started(store, by)? else { return Ok(turns) };
    let since = started.checked_sub_signed(CLOCK_BACK_MAX).unwrap_or(started);
    for (turn, details) in table::turns_after::<SubagentDetails>(store, by, since)? {
        let Some(call) = details.call else { continue };
        if transcript::turn_of_call(store, call)?.is_some_and(|call| call.turn == by) {
            turns.push(turn);
        }
    }
    Ok(turns)
}

/// Returns the approved call that is the subagent's only work, if it has one.
pub fn approved_call(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<ApprovedCall>> {
    let task = table::running_number::<SubagentDetails>(store, id.0)?;
    Ok(task.and_then(|task| task.details.approved))
}

/// The inputs of a new subagent.
struct NewSubagent {
    to: Address,
    terms: SessionTerms,
    sender: Sender,
    details: SubagentDetails,
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
    let by = Some(Author { channel: terms.known_on.clone(), id: sender.id.clone() });
    let kind = TaskKind::Subagent;
    let source = Source::Task { kind, number: Some(id.0), by, read_others: tainted };
    let mut assignment_text = SourcedText::of(source, &text);
    if tainted {
        assignment_text.push_program(format!("\n(Whoever hands this on {}.)", untrusted::HAS_READ));
    }
    let (cause, key) = (Cause::Person(sender), task_key(task_id, None));
    let sources = assignment_text.spans().to_vec();
    let assignment = Assignment { text: &assignment_text, sources, cause, key, to };
    let assigned = assignment::start(store, task_id, &terms, assignment)?;
    table::set_row(store, row, assigned, session)?;
    Ok(Some(id))
}

/// Returns a running subagent. None if the delegating turn was deleted.
fn with_turn(
    store: &Connection,
    task: Running<SubagentDetails>,
) -> rusqlite::Result<Option<RunningSubagent>> {
    let (id, origin) = (SubagentId(task.number), origin_of(store, &task)?);
    let asked_at = task.to;
    let SubagentDetails { parent, call, task, .. } = task.details;
    let Some(call) = call else { return Ok(None) };
    let Some(CallTurn { turn, is_waiting, reply_to, by }) = transcript::turn_of_call(store, call)?
    else {
        return Ok(None);
    };
    Ok(Some(RunningSubagent {
        id,
        task,
        parent: transcript::is_open(store, parent)?.then_some(parent),
        by: by.map(|id| Author { channel: origin.channel().clone(), id }),
        origin,
        asked_at,
        call,
        is_awaited: is_waiting,
        turn,
        reply_to,
    }))
}

/// Returns the origin of a subagent. Its person may be known on another channel than that of its result.
fn origin_of(store: &Connection, task: &Running<SubagentDetails>) -> rusqlite::Result<Origin> {
    let stored = task.row.map_or(Ok(None), |row| journal::origin_of(store, row))?;
    let id = SubagentId(task.number).task();
    Ok(stored.unwrap_or_else(|| id.origin(&task.to.channel)))
}

/// Returns the origins of the running subagents that work for an account, wherever their results go.
pub fn running_of(store: &Connection, account: &PersonAccount) -> rusqlite::Result<Vec<Origin>> {
    let mut origins = Vec::new();
    for task in table::running::<SubagentDetails>(store)? {
        if task.row.map_or(Ok(false), |row| journal::is_by(store, row, account))? {
            origins.push(origin_of(store, &task)?);
        }
    }
    Ok(origins)
}

/// Returns the newest subagent, also one that has ended. 0 if there was none.
pub fn newest(store: &Connection) -> rusqlite::Result<SubagentId> {
    table::last_number(store, TaskKind::Subagent).map(SubagentId)
}

/// A subagent whose work has ended without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StraySubagent {
    pub origin: Origin,
    /// True if a call waits for its end.
    pub is_awaited: bool,
}

/// Returns the running subagents whose rows are done although no turn works on them. Older versions left some behind.
pub fn strays(store: &Connection) -> rusqlite::Result<Vec<StraySubagent>> {
    let mut strays = Vec::new();
    for task in table::running::<SubagentDetails>(store)? {
        let (Some(row), Some(session)) = (task.row, task.session) else { continue };
        let is_deleted = journal::origin_of(store, row)?.is_none();
        let is_done = is_deleted || journal::outcome_of(store, row)?.is_some();
        if !is_done || sessions::has_unfinished(store, session)? {
            continue;
        }
        let origin = origin_of(store, &task)?;
        let is_awaited = with_turn(store, task)?.is_some_and(|subagent| subagent.is_awaited);
        strays.push(StraySubagent { origin, is_awaited });
    }
    Ok(strays)
}

/// Returns the running subagents, at most [`AT_ONCE_MAX`] and [`APPROVED_AT_ONCE_MAX`], oldest first.
fn all_running(store: &Connection) -> rusqlite::Result<Vec<RunningSubagent>> {
    let mut subagents = Vec::new();
    for task in table::running(store)? {
        subagents.extend(with_turn(store, task)?);
    }
    Ok(subagents)
}

/// Returns the running subagents of the conversation at an address: all of them, or one person's.
pub fn running_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<RunningSubagent>> {
    let is_by = |subagent: &RunningSubagent, whose: &SenderId| {
        subagent.by.as_ref().is_some_and(|by| by.id == *whose)
    };
    let all = all_running(store)?.into_iter();
    let matching = all.filter(|subagent| {
        subagent.asked_at == *at && whose.is_none_or(|whose| is_by(subagent, whose))
    });
    Ok(matching.collect())
}

/// Returns the running subagents for which calls of a turn wait.
pub fn awaited_by(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<RunningSubagent>> {
    let all = all_running(store)?.into_iter();
    Ok(all.filter(|subagent| subagent.is_awaited && subagent.turn == turn).collect())
}

/// Returns true if a call waits for the end of a running subagent.
pub fn is_awaited(store: &Connection, id: SubagentId) -> rusqlite::Result<bool> {
    let Some(task) = table::running_number::<SubagentDetails>(store, id.0)? else {
        return Ok(false);
    };
    Ok(with_turn(store, task)?.is_some_and(|subagent| subagent.is_awaited))
}

/// Settles a subagent with its result, and returns it. None if it has ended before. After an approved call, the next one
/// of its report begins, unless people have stopped it.
pub fn settle(
    store: &Connection,
    id: SubagentId,
    outcome: TaskOutcome,
    result: &str,
) -> rusqlite::Result<Option<RunningSubagent>> {
    let Some(task) = table::running_number::<SubagentDetails>(store, id.0)? else {
        return Ok(None);
    };
    let row = task.id;
    let (call, has_approved) = (task.details.call, task.details.approved.is_some());
    let subagent = with_turn(store, task)?;
    let outcome = match outcome {
        // The delegating call gets a result in any case.
        TaskOutcome::Done | TaskOutcome::Silent | TaskOutcome::Repeated => TaskOutcome::Done,
        TaskOutcome::Stopped | TaskOutcome::Skipped => TaskOutcome::Stopped,
        TaskOutcome::Failed | TaskOutcome::Interrupted => outcome,
    };
    let result = TaskResult { words: Some(result), tainted: false };
    table::settle(store, row, outcome, Utc::now(), result)?;
    if has_approved {
        approved::ended(store, call, outcome)?;
    }
    Ok(subagent)
}

/// Returns the address of the conversation that delegated to a running subagent.
pub fn asked_at(store: &Connection, id: SubagentId) -> rusqlite::Result<Option<Address>> {
    Ok(table::running_number::<SubagentDetails>(store, id.0)?.map(|task| task.to))
}

/// Returns the last few subagents of the conversation at an address, running or not, newest first.
pub fn list(store: &Connection, at: &Address) -> rusqlite::Result<Vec<ListedSubagent>> {
    let (channel, chat, thread) = address_params(at);
    let mut rows = store.prepare_cached(
        "SELECT number, details, state, begun FROM tasks WHERE kind = 'subagent'
         AND channel = ? AND chat = ? AND thread IS ? ORDER BY begun DESC, id DESC LIMIT ?",
    )?;
    rows.query_map(params![channel, chat, thread, LISTED_MAX], |row| {
        Ok(ListedSubagent {
            id: row.get(0)?,
            task: row.get::<_, LenientJson<SubagentDetails>>(1)?.0.unwrap_or_default().task,
            state: row.get(2)?,
            begun: row.get::<_, Time>(3)?.0,
        })
    })?
    .collect()
}
