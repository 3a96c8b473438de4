//! Background tasks as turns: the limits and the prompt of such a turn, and the consequences of its end. The
//! differences between the kinds are methods of [`Background`]; each kind has a file of its own.

mod heartbeat;
mod job;
mod kind;
mod subagent;

use std::slice;

use chrono::{DateTime, Utc};
use rusqlite::Connection;

pub(crate) use kind::{Background, TIME_MAX, TaskEnd, TaskLimits};

use crate::bus::journal::{self, InboundOutcome, RowId};
use crate::bus::owner_place;
use crate::conversation::transcript::{self, UnfinishedTurn};
use crate::conversation::{deferred, sessions};
use crate::people::People;
use crate::replies;
use crate::tasks::subagents::{self, StraySubagent, SubagentId};
use crate::tasks::{self, TaskOutcome};
use crate::turn::refused;
use crate::types::message::{Address, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{TurnId, TurnOutcome};

/// Returns the behaviour of a kind of background task.
pub(crate) fn behaviour_of(kind: TaskKind) -> &'static dyn Background {
    match kind {
        TaskKind::Subagent => &subagent::Subagent,
        TaskKind::Job => &job::JobRun,
        TaskKind::Heartbeat => &heartbeat::HeartbeatRun,
    }
}

/// Deletes tasks and closed sessions that are older than the retention of their kind, a slice of each kind at a time.
/// Returns the number of deleted rows.
pub(crate) fn prune(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut deleted = 0;
    for kind in TaskKind::ALL {
        deleted += tasks::prune(store, *kind, now - behaviour_of(*kind).kept())?;
    }
    Ok(deleted)
}

/// Ends a task, with all consequences in the same transaction and without another completion.
pub(crate) fn end(store: &Connection, origin: &Origin, end: &TaskEnd<'_>) -> rusqlite::Result<()> {
    let Some(TaskId { kind, number }) = origin.task() else { return Ok(()) };
    behaviour_of(kind).settle(store, number, end)?;
    sessions::close(store, origin)
}

/// Ends a task whose turn was cut off too often, or cannot be read.
pub(crate) fn give_up(store: &Connection, turn: TurnId, task: &Origin) -> rusqlite::Result<()> {
    let holds = holds_reports(task);
    let refused = refused::take_report(store, turn, holds)?;
    transcript::end_turn(store, turn, TurnOutcome::Failed)?;
    journal::settle_turn(store, turn, InboundOutcome::Refused)?;
    let message = task.task().map(|task| behaviour_of(task.kind).interrupted_text());
    let ours = TaskEnd::by_program(TaskOutcome::Interrupted, Some(turn), message);
    end(store, task, &TaskEnd { is_quiet: holds, ..ours })?;
    refused.map_or(Ok(()), |report| report.send(store))
}

/// Ends a task that failed before it had a turn.
pub(crate) fn fail(store: &Connection, task: &Origin) -> rusqlite::Result<()> {
    let message = task.task().map(|task| behaviour_of(task.kind).failed_text());
    let ours = TaskEnd::by_program(TaskOutcome::Failed, None, message);
    end(store, task, &TaskEnd { is_quiet: holds_reports(task), ..ours })
}

/// Returns true if the reports of a task that the program ends are held: nobody knows here if it is quiet. The caller wakes
/// the heartbeat, which sends them unless it is.
fn holds_reports(task: &Origin) -> bool {
    task.task().is_some_and(|task| task.kind == TaskKind::Heartbeat)
}

/// Ends tasks silently: their turns, and their rows that have not begun.
pub(crate) fn stop(store: &Connection, tasks: &[Origin]) -> rusqlite::Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let unfinished = transcript::unfinished(store)?;
    for task in tasks {
        stop_work(store, task, &unfinished)?;
        end(store, task, &TaskEnd::by_program(TaskOutcome::Stopped, None, None))?;
    }
    Ok(())
}

/// Ends the turns of a task, and its rows that have not begun.
fn stop_work(
    store: &Connection,
    task: &Origin,
    unfinished: &[UnfinishedTurn],
) -> rusqlite::Result<()> {
    for turn in unfinished.iter().filter(|it| it.origin == *task) {
        transcript::end_turn(store, turn.turn, TurnOutcome::Stopped)?;
        journal::settle_turn(store, turn.turn, InboundOutcome::Stopped)?;
    }
    journal::withdraw(store, task, RowId(i64::MAX), None).map(drop)
}

/// Ends a task whose person has no access any more, and people hear nothing of it. A call that waits for it gets an
/// outcome, because its turn would wait for ever: it goes on, and ends by the access of its own person.
pub(crate) fn end_without_access(store: &Connection, task: &Origin) -> rusqlite::Result<()> {
    if !is_awaited(store, task)? {
        return stop(store, slice::from_ref(task));
    }
    stop_work(store, task, &transcript::unfinished(store)?)?;
    let message = Some(replies::SUBAGENT_WITHOUT_ACCESS);
    end(store, task, &TaskEnd::by_program(TaskOutcome::Interrupted, None, message))
}

/// Has what is for the owner reach an owner, once somebody has lost that role: see [`owner_place::keep_with_owner`]. A run
/// of the heartbeat that would report to the former address ends, alerts that are held back go to the new one, and calls
/// of which people there were to be told are dropped.
pub(crate) fn keep_owner_place(store: &Connection, people: &People) -> rusqlite::Result<()> {
    let Some(former) = owner_place::keep_with_owner(store, people)? else { return Ok(()) };
    stop(store, &behaviour_of(TaskKind::Heartbeat).running_for(store, &former, None)?)?;
    tasks::heartbeat::held::move_held(store, &former)?;
    deferred::drop_held_at(store, &former)
}

/// Returns true if a call waits for the end of a task.
fn is_awaited(store: &Connection, task: &Origin) -> rusqlite::Result<bool> {
    match task.task() {
        Some(TaskId { kind: TaskKind::Subagent, number }) => {
            subagents::is_awaited(store, SubagentId(number))
        }
        Some(TaskId { kind: TaskKind::Job | TaskKind::Heartbeat, .. }) | None => Ok(false),
    }
}

/// Ends the subagents that were left behind without a turn, and would take up places forever. A call that waits for one
/// gets an outcome; people hear nothing, because nobody waits for it any more. Then goes on with approved calls that wait.
pub(crate) fn end_strays(store: &Connection) -> rusqlite::Result<()> {
    for StraySubagent { origin, is_awaited } in subagents::strays(store)? {
        tracing::warn!(%origin, "Ended a subagent that was left behind without a turn");
        let (how, message) = match is_awaited {
            true => (TaskOutcome::Interrupted, Some(replies::SUBAGENT_GAVE_UP)),
            false => (TaskOutcome::Stopped, None),
        };
        end(store, &origin, &TaskEnd::by_program(how, None, message))?;
    }
    subagents::begin_queued(store).map(drop)
}

/// Silently ends the tasks that work for an address, all or one person's, and drops approved calls that wait for them.
/// Returns their origins.
pub(crate) fn stop_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Origin>> {
    subagents::drop_queued_for(store, at, whose)?;
    let mut running = Vec::new();
    for kind in TaskKind::ALL {
        running.extend(behaviour_of(*kind).running_for(store, at, whose)?);
    }
    stop(store, &running)?;
    Ok(running)
}
