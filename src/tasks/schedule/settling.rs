//! Ends a run, with the consequences for its job, in the transaction of its outcome.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::bus::outbox;
use crate::people;
use crate::replies;
use crate::short_text::first_chars;
use crate::store::Time;
use crate::tasks::outcome::TaskOutcome;
use crate::tasks::schedule::due::after_failures;
use crate::tasks::schedule::job::{self, Job, JobId, JobState};
use crate::tasks::schedule::run::Run;
use crate::tasks::table::{self, TaskResult};
use crate::types::message::ChatKind;

/// Number of consecutive failures after which the owner is notified.
pub const FAILURES_TOLD: u32 = 2;

/// Number of consecutive failures after which a job is paused.
pub const FAILURES_MAX: u32 = 10;

/// Maximum length of a stored outcome, in characters.
const WORDS_CHARS_MAX: usize = 500;

/// Settles a run, with the consequences for its job, in the transaction of its outcome. Does nothing if it
/// was settled before.
pub fn settle(
    store: &Connection,
    run: &Run,
    ended: TaskOutcome,
    words: Option<&str>,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let stored = words.map(|words| first_chars(words, WORDS_CHARS_MAX));
    let result = TaskResult { words: stored, tainted: false };
    if !table::settle(store, run.id, ended, now, result)? {
        return Ok(());
    }
    // The job may have been changed since the run began.
    let Some(mut job) = job::find_even_removed(store, run.job.id)? else { return Ok(()) };
    let reason = words.unwrap_or_default();
    match ended {
        TaskOutcome::Done | TaskOutcome::Silent | TaskOutcome::Repeated => job.failures = 0,
        TaskOutcome::Failed | TaskOutcome::Interrupted => {
            handle_failure(store, &mut job, ended, reason, now)?
        }
        TaskOutcome::Stopped | TaskOutcome::Skipped => {}
    }
    if matches!(job.state, JobState::Active | JobState::Paused) && job.next.is_none() {
        job.state = JobState::Done;
    }
    job::update(store, &job)
}

/// Settles the runs of a job that cannot be read.
pub(super) fn settle_unreadable(
    store: &Connection,
    job: JobId,
    why: &str,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE tasks SET state = 'failed', ended = ?, words = ? WHERE job = ? AND state = 'running'",
        )?
        .execute(params![Time(now), why, job])
        .map(drop)
}

fn handle_failure(
    store: &Connection,
    job: &mut Job,
    ended: TaskOutcome,
    reason: &str,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    job.failures += 1;
    let to = job.definition.to.clone();
    let owner = people::owner_address(store)?.unwrap_or_else(|| to.clone());
    let (id, about) = (job.id.0, job.definition.payload.text());
    let Some(next) = job.next else {
        // A job that runs once is not retried, because its work could be done twice.
        outbox::put(store, &to, None, &replies::job_failed(id, about, reason))?;
        return Ok(());
    };
    job.next = Some(after_failures(job.failures, next, now));
    match job.failures {
        FAILURES_MAX.. => {
            job.state = JobState::Paused;
            job.why = Some(replies::failed_too_often(job.failures));
            let notice = replies::job_paused_itself(id, about, job.failures, reason);
            outbox::put(store, &owner, None, &notice)?;
        }
        FAILURES_TOLD => {
            let notice = replies::job_fails(id, about, job.failures, reason);
            outbox::put(store, &owner, None, &notice)?;
        }
        _ if ended == TaskOutcome::Interrupted => {
            // Its person gets a notice in private; in a group, the owner gets it instead.
            let to = if job.definition.chat_kind == ChatKind::Private { to } else { owner };
            outbox::put(store, &to, None, &replies::job_interrupted(id, about))?;
        }
        _ => {}
    }
    Ok(())
}
