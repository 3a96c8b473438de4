//! Calls in the store, from planned to their outcome, and the data to undo them.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal::read_origin;
use crate::conversation::actions;
use crate::conversation::sources;
use crate::provider::ToolCall;
use crate::store::{Json, LenientJson, Time, text_columns};
use crate::types::message::{ChannelName, MessageId, Sender, SenderId};
use crate::types::session::{Call, CallId, CallOutcome, FileUndo, Image, Intent, TurnId};
use crate::types::source::Source;

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    Planned,
    Waiting,
    Running,
    Done,
    Failed,
    Denied,
    Interrupted,
    Skipped,
}

impl CallState {
    const ALL: [Self; 8] = [
        Self::Planned,
        Self::Waiting,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Denied,
        Self::Interrupted,
        Self::Skipped,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
            Self::Skipped => "skipped",
        }
    }

    /// Parses a state. An unknown one of a newer version counts as interrupted: the call may or may not have been made.
    fn parse(text: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.as_str() == text).unwrap_or(Self::Interrupted)
    }
}

text_columns!(CallState = Self::parse);

/// Reads a call. The first column is its step, the columns from `id` on follow.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Call> {
    let output = row.get::<_, Option<String>>(7)?;
    let sources = sources::of_call(output.is_some(), row.get(10)?);
    let output = output.unwrap_or_default();
    let outcome = match row.get(5)? {
        CallState::Planned => CallOutcome::Planned,
        CallState::Waiting => CallOutcome::Waiting,
        CallState::Denied => CallOutcome::Denied(output),
        CallState::Running => match row.get::<_, LenientJson<_>>(6)?.0 {
            Some(intent) => CallOutcome::Running { intent, result: output },
            None => CallOutcome::Interrupted,
        },
        CallState::Done => CallOutcome::Done(output),
        CallState::Failed => CallOutcome::Failed(output),
        CallState::Skipped => CallOutcome::Skipped,
        CallState::Interrupted => CallOutcome::Interrupted,
    };
    Ok(Call {
        id: row.get(1)?,
        wire_id: row.get(2)?,
        tool: row.get(3)?,
        arguments: row.get(4)?,
        outcome,
        sources,
        images: row.get::<_, LenientJson<_>>(8)?.0.unwrap_or_default(),
    })
}

/// Stores the calls of a step as planned.
pub(crate) fn plan_calls(
    store: &Connection,
    turn: TurnId,
    step: usize,
    calls: Vec<ToolCall>,
) -> rusqlite::Result<Vec<Call>> {
    let mut insert = store.prepare_cached(
        "INSERT INTO calls (turn, step, wire_id, tool, arguments, state)
         VALUES (?, ?, ?, ?, ?, 'planned')",
    )?;
    calls
        .into_iter()
        .map(|ToolCall { id: wire_id, name: tool, arguments }| {
            insert.execute(params![turn, step, wire_id, tool, arguments])?;
            let id = CallId(store.last_insert_rowid());
            let (outcome, sources, images) = (CallOutcome::Planned, Vec::new(), Vec::new());
            Ok(Call { id, wire_id, tool, arguments, outcome, sources, images })
        })
        .collect()
}

/// Marks a call as waiting, because somebody is asked on its behalf.
pub(crate) fn mark_call_waiting(store: &Connection, call: CallId) -> rusqlite::Result<()> {
    set_state(store, call, CallState::Waiting)
}

/// Marks a call as planned again: one that waits and may be made, or one that began and has changed nothing.
pub(crate) fn mark_call_planned(store: &Connection, call: CallId) -> rusqlite::Result<()> {
    set_state(store, call, CallState::Planned)
}

fn set_state(store: &Connection, call: CallId, state: CallState) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE calls SET state = ? WHERE id = ?")?
        .execute(params![state, call])?;
    Ok(())
}

/// A call with the person for whom it is made.
pub(crate) struct RequestedCall {
    /// The channel on which the person is known.
    pub(crate) known_on: ChannelName,
    pub(crate) person: Sender,
    pub(crate) tool: String,
}

pub(crate) fn requested_call(store: &Connection, call: CallId) -> rusqlite::Result<RequestedCall> {
    store
        .prepare_cached(
            "SELECT s.channel, s.chat, s.thread, t.sender, c.tool FROM calls c
             JOIN turns t ON t.id = c.turn JOIN sessions s ON s.id = t.session WHERE c.id = ?",
        )?
        .query_row([call], |row| {
            let known_on = read_origin(row)?.channel().clone();
            Ok(RequestedCall { known_on, person: row.get::<_, Json<_>>(3)?.0, tool: row.get(4)? })
        })
}

/// The turn of a call.
pub(crate) struct CallTurn {
    pub(crate) turn: TurnId,
    /// True if the call waits for a person or a subagent.
    pub(crate) is_waiting: bool,
    /// The message that the turn answers.
    pub(crate) reply_to: Option<MessageId>,
    /// The person for whom the turn works. None if that cannot be read.
    pub(crate) by: Option<SenderId>,
}

/// Returns the turn of a call. None if the call was deleted.
pub(crate) fn turn_of_call(store: &Connection, call: CallId) -> rusqlite::Result<Option<CallTurn>> {
    store
        .prepare_cached(
            "SELECT t.id, c.state = 'waiting', t.reply_to,
             iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL)
             FROM calls c JOIN turns t ON t.id = c.turn WHERE c.id = ?",
        )?
        .query_row([call], |row| {
            Ok(CallTurn {
                turn: row.get(0)?,
                is_waiting: row.get(1)?,
                reply_to: row.get(2)?,
                by: row.get(3)?,
            })
        })
        .optional()
}

pub(crate) fn mark_call_running(
    store: &Connection,
    call: CallId,
    intent: &Intent,
    result: &str,
    sources: &[Source],
) -> rusqlite::Result<()> {
    let now = Time::now();
    store
        .prepare_cached(
            "UPDATE calls SET state = 'running', intent = ?, output = ?, sources = ?, started = ?
             WHERE id = ?",
        )?
        .execute(params![Json(intent), result, Json(&sources), now, call])?;
    Ok(())
}

/// Stores the data to undo a call.
pub(crate) fn set_undo(
    store: &Connection,
    call: CallId,
    undo: Option<&FileUndo>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE calls SET undo = ? WHERE id = ?")?
        .execute(params![undo.map(Json), call])?;
    Ok(())
}

/// Stores pictures of the answer that is the call's outcome.
pub(crate) fn set_images(
    store: &Connection,
    call: CallId,
    images: &[Image],
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE calls SET images = ? WHERE id = ?")?
        .execute(params![Json(&images), call])?;
    Ok(())
}

/// Stores the time at which a call began, unless it is known already.
pub(crate) fn set_call_start(
    store: &Connection,
    call: CallId,
    at: DateTime<Utc>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE calls SET started = ifnull(started, ?) WHERE id = ?")?
        .execute(params![Time(at), call])?;
    Ok(())
}

/// Settles a call, with the sources of its outcome. An unsettled outcome is stored as the state it would get after
/// a crash.
pub(crate) fn end_call(
    store: &Connection,
    call: CallId,
    outcome: &CallOutcome,
    sources: &[Source],
) -> rusqlite::Result<()> {
    let (state, output) = match outcome {
        CallOutcome::Done(text) => (CallState::Done, Some(text)),
        CallOutcome::Failed(text) => (CallState::Failed, Some(text)),
        CallOutcome::Denied(text) => (CallState::Denied, Some(text)),
        CallOutcome::Interrupted | CallOutcome::Running { .. } => (CallState::Interrupted, None),
        CallOutcome::Skipped | CallOutcome::Planned | CallOutcome::Waiting => {
            (CallState::Skipped, None)
        }
    };
    let now = Time::now();
    store
        .prepare_cached(
            "UPDATE calls SET state = ?, output = ?, sources = ?, ended = ?, started = ifnull(started, ?)
             WHERE id = ?",
        )?
        .execute(params![state, output, Json(&sources), now, now, call])?;
    if matches!(outcome, CallOutcome::Done(_)) {
        actions::mark_undone(store, call)?;
    }
    Ok(())
}
