//! Messages with which no turn begins: they were received too late, or their person has no access any more. Turns do not
//! go on without access either. A clock that is ahead makes every message look late, and must not silence the bot.

use chrono::Duration;
use rusqlite::Connection;

use crate::bus::Bus;
pub use crate::bus::journal::MessageTimes;
use crate::bus::journal::{self, InboundOutcome, WaitingMessage};
use crate::conversation::transcript::UnfinishedTurn;
use crate::replies;
use crate::store::StoreError;
use crate::tasks::schedule::{self, JobDefinition, JobId};
use crate::turn::commits;
use crate::turn::error::TurnError;
use crate::types::message::{Cause, Sender};
use crate::types::origin::{Origin, TaskKind};

/// Delay after which a message gets one line instead of an answer.
const LATE_AFTER: Duration = Duration::hours(24);

/// Minimum gap between two messages that are not of one backlog, because a platform delivers its backlog at once.
const GAP_MIN: Duration = Duration::seconds(10);

/// Maximum difference between the delays of two messages of the same backlog.
const SAME_LAG: Duration = Duration::minutes(1);

/// Minimum gap to a message of another conversation that reveals the error of our clock. A platform's backlog of
/// several conversations arrives within this time.
const ELSEWHERE_GAP_MIN: Duration = Duration::minutes(10);

/// Closes the messages with which a turn would begin if they are too late, or their person would be turned away now.
/// Returns false if they are not closed.
pub(super) async fn close_declined(bus: &Bus, rows: &[WaitingMessage]) -> Result<bool, StoreError> {
    if are_late(bus, rows).await? {
        let reply = replies::TOO_LATE.to_owned();
        commits::close_messages(&bus.store, rows.to_vec(), InboundOutcome::Late, reply).await?;
        return Ok(true);
    }
    if let Some(first) = rows.first()
        && end_task_without_access(bus, &first.origin, first.sender()).await?
    {
        return Ok(true);
    }
    if let Some(first) = rows.first()
        && end_run_without_access(bus, &first.inbound.cause).await?
    {
        return Ok(true);
    }
    if !has_lost_access(bus, rows).await? {
        return Ok(false);
    }
    commits::close_without_access(&bus.store, rows.to_vec()).await?;
    Ok(true)
}

/// Returns true if the person who wrote the messages would be turned away now.
async fn has_lost_access(bus: &Bus, rows: &[WaitingMessage]) -> Result<bool, StoreError> {
    let Some(first) = rows.first().filter(|first| first.origin.chat().is_some()) else {
        return Ok(false);
    };
    let Cause::Person(sender) = first.inbound.cause.clone() else { return Ok(false) };
    let (inbound, people) = (first.inbound.clone(), bus.people.clone());
    let query = move |store: &Connection| people.role_of_speaker(store, &inbound, &sender);
    let is_known = bus.store.read(query).await?.is_some();
    if !is_known {
        tracing::info!(at = %first.inbound.from, "Not answered, because the sender has no access any more");
    }
    Ok(!is_known)
}

/// Ends a turn that was to go on if its person would be turned away now: nothing more is done for them. Returns false if it
/// goes on.
pub(super) async fn end_without_access(
    bus: &Bus,
    unfinished: &UnfinishedTurn,
) -> Result<bool, TurnError> {
    if unfinished.origin.chat().is_none() {
        let ended = end_task_without_access(bus, &unfinished.origin, &unfinished.sender).await?;
        return Ok(ended);
    }
    let (turn, people) = (unfinished.turn, bus.people.clone());
    let find_first = move |store: &Connection| journal::first_of_turn(store, turn);
    let Some(first) = bus.store.read(find_first).await? else { return Ok(false) };
    if end_run_without_access(bus, &first.cause).await? {
        return Ok(true);
    }
    let Cause::Person(sender) = first.cause.clone() else { return Ok(false) };
    let inbound = first.clone();
    let find_role = move |store: &Connection| people.role_of_speaker(store, &inbound, &sender);
    if bus.store.read(find_role).await?.is_some() {
        return Ok(false);
    }
    tracing::info!(at = %first.from, "Ended a turn, because its person has no access any more");
    commits::end_without_access(&bus.store, turn, first).await?;
    bus.outbox.notify();
    Ok(true)
}

/// Ends a background task if its person has no access any more: the config does not name them since a reload, say. Returns
/// false if it goes on.
async fn end_task_without_access(
    bus: &Bus,
    task: &Origin,
    sender: &Sender,
) -> Result<bool, StoreError> {
    if task.task().is_none_or(|task| task.kind == TaskKind::Heartbeat) {
        return Ok(false);
    }
    let (people, channel, id) = (bus.people.clone(), task.channel().clone(), sender.id.clone());
    let query = move |store: &Connection| people.has_lost_access(store, &channel, &id);
    let has_lost_access = bus.store.read(query).await?;
    if has_lost_access {
        tracing::info!(%task, "Ended a background task, because its person has no access any more");
        commits::end_task_without_access(&bus.store, task.clone()).await?;
        bus.jobs.notify();
    }
    Ok(has_lost_access)
}

/// Ends the run of a job that works in a conversation with people, if the job's person has no access any more. Returns
/// false for other causes, and if the run goes on.
async fn end_run_without_access(bus: &Bus, cause: &Cause) -> Result<bool, StoreError> {
    let Cause::Job { job, .. } = cause else { return Ok(false) };
    let (job, people) = (JobId(*job), bus.people.clone());
    let find_lost = move |store: &Connection| {
        let Some(run) = schedule::find_job_run(store, job)?.filter(|run| run.is_here) else {
            return Ok(None);
        };
        let JobDefinition { known_on, sender, .. } = &run.job.definition;
        let has_lost_access = people.has_lost_access(store, known_on, &sender.id)?;
        Ok(has_lost_access.then_some(run))
    };
    let Some(run) = bus.store.read(find_lost).await? else { return Ok(false) };
    tracing::info!(job = job.0, "Ended a run of a job, because its person has no access any more");
    commits::end_run_without_access(&bus.store, run).await?;
    bus.jobs.notify();
    Ok(true)
}

/// Returns the delay of a message, as the difference of both clocks.
fn lag(message: MessageTimes) -> Duration {
    message.received - message.at
}

/// Returns true if a message was received too late. It was not if a message well before it has the same delay:
/// then messages arrive in time, and our clock is ahead.
pub fn is_late(message: MessageTimes, earlier: Option<MessageTimes>) -> bool {
    let is_as_late = |earlier: MessageTimes| {
        message.received - earlier.received >= GAP_MIN
            && (lag(message) - lag(earlier)).abs() <= SAME_LAG
    };
    lag(message) > LATE_AFTER && !earlier.is_some_and(is_as_late)
}

/// Returns true if all of these messages, which begin a turn, were received too late.
async fn are_late(bus: &Bus, rows: &[WaitingMessage]) -> Result<bool, StoreError> {
    let times = |row: &WaitingMessage| MessageTimes { at: row.inbound.at, received: row.received };
    let Some(first) = rows.first().filter(|_| rows.iter().all(|row| is_late(times(row), None)))
    else {
        return Ok(false);
    };
    let (first, at) = (first.clone(), times(first));
    // The known difference of the clocks explains the delay.
    if bus.clock_lag.get().is_some_and(|clocks| (lag(at) - clocks).abs() <= SAME_LAG) {
        return Ok(false);
    }
    let query = move |store: &_| {
        let here = journal::times_before(store, &first, first.received - GAP_MIN)?;
        let until = first.received - ELSEWHERE_GAP_MIN;
        Ok([here, journal::times_elsewhere_before(store, &first, until)?])
    };
    let earlier = bus.store.read(query).await?;
    Ok(earlier.into_iter().all(|earlier| is_late(at, earlier)))
}
