//! The commits of job runs in a conversation with people, and of changes of jobs. A change that ends a job also
//! ends the work on it.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome};
use crate::conversation::transcript;
use crate::replies;
use crate::tasks::TaskOutcome;
use crate::tasks::schedule::{self, JobOperation, JobScope, JobState, Run};
use crate::turn::background;
use crate::turn::commits::delegated;
use crate::turn::end::TurnEnd;
use crate::types::session::{TurnId, TurnOutcome};

/// Settles the run of a job, if the ended turn of a conversation was one. Returns the message to send.
pub(super) fn end_conversation_run(
    store: &Connection,
    turn: TurnId,
    end: &TurnEnd,
) -> rusqlite::Result<Option<String>> {
    let message = end.words.as_deref();
    let Some(run) = schedule::find_turn_run(store, turn)? else {
        return Ok(message.map(str::to_owned));
    };
    schedule::settle(store, &run, TaskOutcome::of(end.ending), message, Utc::now())?;
    let now = Utc::now().with_timezone(&end.zone);
    Ok(message.map(|message| schedule::message_for_people(&run, message, now)))
}

/// Settles the run of a job as stopped, if the interrupted turn was one.
pub(super) fn interrupt_run(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    let Some(run) = schedule::find_turn_run(store, turn)? else { return Ok(()) };
    let reason = Some(replies::JOB_INTERRUPTED);
    schedule::settle(store, &run, TaskOutcome::Stopped, reason, Utc::now())
}

/// Carries out an order about jobs. Returns the reply; the inner error explains a refusal. Pausing or removing
/// a job also ends its run.
pub fn handle_order(
    store: &Connection,
    whose: &JobScope,
    order: JobOperation,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<Result<String, String>> {
    let ended_run = match order {
        JobOperation::Remove(id) | JobOperation::Pause(id) => schedule::find_job_run(store, id)?,
        _ => None,
    };
    let handled = schedule::handle(store, whose, order, now, zone)?;
    Ok(match (handled, ended_run) {
        (Ok(reply), Some(run)) => {
            // A task that still works on the run finds out at its next commit.
            stop_run(store, &run)?;
            match is_over(store, &run)? {
                true => Ok(replies::one_time_job_paused(run.job.id)),
                false => Ok(format!("{reply} {}", replies::RUN_ENDED)),
            }
        }
        (handled, _) => handled,
    })
}

/// Returns true if a job is done: it ran once, and that time is past.
fn is_over(store: &Connection, run: &Run) -> rusqlite::Result<bool> {
    let job = schedule::get(store, run.job.id, &JobScope::All)?;
    Ok(job.is_some_and(|job| job.state == JobState::Done))
}

/// Ends the work on a run: a background task, a turn in a conversation with the subagents for which it waits,
/// or a shell command.
pub(super) fn stop_run(store: &Connection, run: &Run) -> rusqlite::Result<()> {
    if !run.is_here {
        return background::stop(store, &[run.origin()]);
    }
    if let Some(row) = run.row {
        journal::settle(store, row, InboundOutcome::Stopped)?;
    }
    if let Some(turn) = run.turn {
        delegated::stop_awaited(store, turn)?;
        if transcript::is_running(store, turn)? {
            transcript::end_turn(store, turn, TurnOutcome::Stopped)?;
        }
        journal::settle_turn(store, turn, InboundOutcome::Stopped)?;
    }
    schedule::settle(store, run, TaskOutcome::Stopped, None, Utc::now())
}
