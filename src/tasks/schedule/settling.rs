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
use crate::tasks::schedule::job::{self, Job, JobDefinition, JobId, JobState};
use crate::tasks::schedule::reader;
use crate::tasks::schedule::run::Run;
use crate::tasks::table::{self, TaskResult};
use crate::types::message::{Address, ChatKind};

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
    let NoticeAddresses { person, owner } = NoticeAddresses::of(store, &job.definition)?;
    let (id, about) = (job.id.0, job.definition.payload.text());
    let Some(next) = job.next else {
        // A job that runs once is not retried, because its work could be done twice.
        return notify(store, person, &replies::job_failed(id, about, reason));
    };
    job.next = Some(after_failures(job.failures, next, now));
    match job.failures {
        FAILURES_MAX.. => {
            job.state = JobState::Paused;
            job.why = Some(replies::failed_too_often(job.failures));
            let notice = replies::job_paused_itself(id, about, job.failures, reason);
            notify(store, owner, &notice)?;
        }
        FAILURES_TOLD => {
            let notice = replies::job_fails(id, about, job.failures, reason);
            notify(store, owner, &notice)?;
        }
        _ if ended == TaskOutcome::Interrupted => {
            // Its person gets a notice in private; in a group, the owner gets it instead.
            let is_private = job.definition.chat_kind == ChatKind::Private;
            let at = if is_private { person } else { owner };
            notify(store, at, &replies::job_interrupted(id, about))?;
        }
        _ => {}
    }
    Ok(())
}

/// The addresses for notices about a job, which contain its text.
struct NoticeAddresses {
    /// The address for its results, or the owner's if somebody else reads the results.
    person: Option<Address>,
    /// The owner's address, or that of its person if the owner has none. None if only somebody else would read the
    /// notice.
    owner: Option<Address>,
}

impl NoticeAddresses {
    fn of(store: &Connection, definition: &JobDefinition) -> rusqlite::Result<Self> {
        let owner = people::owner_address(store)?;
        if reader::is_for_somebody_else(store, definition)? {
            return Ok(Self { person: owner.clone(), owner });
        }
        let to = &definition.to;
        Ok(Self { person: Some(to.clone()), owner: owner.or_else(|| Some(to.clone())) })
    }
}

fn notify(store: &Connection, at: Option<Address>, notice: &str) -> rusqlite::Result<()> {
    let Some(at) = at else {
        tracing::warn!("No owner has an address at which to be told that a job failed");
        return Ok(());
    };
    outbox::put(store, &at, None, notice).map(drop)
}
