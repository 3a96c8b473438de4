//! Commits of jobs whose runs work in a conversation with people, and of what changes jobs: whatever works
//! on a job that is done no more ends with that.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome};
use crate::conversation::transcript;
use crate::replies;
use crate::tasks::TaskOutcome;
use crate::tasks::schedule::{self, JobOrder, JobScope, JobState, Run};
use crate::turn::background;
use crate::turn::commits::delegated;
use crate::turn::end::TurnEnd;
use crate::types::session::{TurnId, TurnOutcome};

/// A turn in a conversation has ended, which may have worked on a job. Returns the words as they are sent.
pub(super) fn conversation_ended(
    store: &Connection,
    turn: TurnId,
    end: &TurnEnd,
) -> rusqlite::Result<Option<String>> {
    let words = end.words.as_deref();
    let Some(run) = schedule::of_turn(store, turn)? else { return Ok(words.map(str::to_owned)) };
    schedule::settle(store, &run, TaskOutcome::of(end.ending), words, Utc::now())?;
    let now = Utc::now().with_timezone(&end.zone);
    Ok(words.map(|words| schedule::message_for_people(&run, words, now)))
}

/// A turn was interrupted by what somebody has said, which may have worked on a job.
pub(super) fn interrupted(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    let Some(run) = schedule::of_turn(store, turn)? else { return Ok(()) };
    let words = Some(replies::JOB_INTERRUPTED);
    schedule::settle(store, &run, TaskOutcome::Stopped, words, Utc::now())
}

/// Changes jobs as somebody wishes, and says what came of it. What works on a job that is done no more ends
/// with that.
pub fn handle_order(
    store: &Connection,
    whose: &JobScope,
    order: JobOrder,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<Result<String, String>> {
    let ends = match order {
        JobOrder::Remove(id) | JobOrder::Pause(id) => schedule::of_job(store, id)?,
        _ => None,
    };
    let handled = schedule::handle(store, whose, order, now, zone)?;
    Ok(match (handled, ends) {
        (Ok(words), Some(run)) => {
            // Turns of them that still run find that they have ended with what they next write down.
            stop_run(store, &run)?;
            match is_over(store, &run)? {
                true => Ok(replies::job_stopped_for_good(run.job.id)),
                false => Ok(format!("{words} {}", replies::RUN_ENDED)),
            }
        }
        (handled, _) => handled,
    })
}

/// Returns true if a job has nothing more to wait for: it was for once, and that is past.
fn is_over(store: &Connection, run: &Run) -> rusqlite::Result<bool> {
    let job = schedule::get(store, run.job.id, &JobScope::All)?;
    Ok(job.is_some_and(|job| job.state == JobState::Done))
}

/// Ends what works on a run: a background task, a turn in a conversation with the subagents that it waits
/// for, or a command.
fn stop_run(store: &Connection, run: &Run) -> rusqlite::Result<()> {
    if !run.is_here {
        return background::stop(store, &[run.origin()]);
    }
    if let Some(row) = run.row {
        journal::settle(store, row, InboundOutcome::Stopped)?;
    }
    if let Some(turn) = run.turn {
        delegated::stop_awaited(store, turn)?;
        if transcript::runs(store, turn)? {
            transcript::end_turn(store, turn, TurnOutcome::Stopped)?;
        }
        journal::settle_turn(store, turn, InboundOutcome::Stopped)?;
    }
    schedule::settle(store, run, TaskOutcome::Stopped, None, Utc::now())
}
