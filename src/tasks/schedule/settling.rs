//! Ends a run, with the consequences for its job; in the transaction of its outcome.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::bus::outbox;
use crate::people;
use crate::replies;
use crate::short_text::first_chars;
use crate::store::Time;
use crate::tasks::ended::TaskOutcome;
use crate::tasks::schedule::due::after_failures;
use crate::tasks::schedule::job::{self, Job, JobId, JobState};
use crate::tasks::schedule::run::Run;
use crate::tasks::table::{self, TaskResult};
use crate::types::message::ChatKind;

/// Failures in a row after which the owner is told.
pub const FAILURES_TOLD: u32 = 2;

/// Failures in a row after which a job is paused.
pub const FAILURES_MAX: u32 = 10;

/// Maximum length of a stored outcome, in characters.
const WORDS_CHARS_MAX: usize = 500;

/// Settles a run, with what follows from it for its job; in the transaction of what came of it. Nothing
/// if it was settled before.
pub fn settle(
    store: &Connection,
    run: &Run,
    ended: TaskOutcome,
    words: Option<&str>,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let kept = words.map(|words| first_chars(words, WORDS_CHARS_MAX));
    let result = TaskResult { words: kept, tainted: false };
    if !table::settle(store, run.id, ended, now, result)? {
        return Ok(());
    }
    // It may have been changed since the run began.
    let Some(mut job) = job::even_removed(store, run.job.id)? else { return Ok(()) };
    let reason = words.unwrap_or_default();
    match ended {
        TaskOutcome::Done | TaskOutcome::Silent | TaskOutcome::Repeated => job.failures = 0,
        TaskOutcome::Failed | TaskOutcome::Interrupted => {
            failed(store, &mut job, ended, reason, now)?
        }
        TaskOutcome::Stopped | TaskOutcome::Skipped => {}
    }
    if matches!(job.state, JobState::Active | JobState::Paused) && job.next.is_none() {
        job.state = JobState::Done;
    }
    job::update(store, &job)
}

/// Settles what works on a job that cannot be read.
pub(super) fn settle_unread(
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

fn failed(
    store: &Connection,
    job: &mut Job,
    ended: TaskOutcome,
    reason: &str,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    job.failures += 1;
    let to = job.brief.to.clone();
    let owner = people::owner_place(store)?.unwrap_or_else(|| to.clone());
    let (id, about) = (job.id.0, job.brief.payload.text());
    let Some(next) = job.next else {
        // It is not tried again: what it had done would be done twice.
        outbox::put(store, &to, None, &replies::job_failed(id, about, reason))?;
        return Ok(());
    };
    job.next = Some(after_failures(job.failures, next, now));
    match job.failures {
        FAILURES_MAX.. => {
            job.state = JobState::Paused;
            job.why = Some(replies::failed_too_often(job.failures));
            let words = replies::job_paused_itself(id, about, job.failures, reason);
            outbox::put(store, &owner, None, &words)?;
        }
        FAILURES_TOLD => {
            let words = replies::job_fails(id, about, job.failures, reason);
            outbox::put(store, &owner, None, &words)?;
        }
        _ if ended == TaskOutcome::Interrupted => {
            // Whose it is; but not a group, which has nothing to do with it.
            let to = if job.brief.chat_kind == ChatKind::Private { to } else { owner };
            outbox::put(store, &to, None, &replies::job_interrupted(id, about))?;
        }
        _ => {}
    }
    Ok(())
}
