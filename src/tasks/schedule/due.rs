//! Computes which jobs are due. Pure: values in, values out, no clock, no store.

use chrono::{DateTime, Duration, Utc};

use crate::tasks::schedule::job::{Job, JobId, JobState, Missed};

/// Time after its due time at which a run is late.
pub const LATE_AFTER: Duration = Duration::minutes(5);

/// A due time that was claimed further ahead of now than this was claimed by a wrong clock. A nearer one is not
/// claimed a second time after the clock was set back.
const WRONG_AFTER: Duration = Duration::days(1);

/// The pause after the first failure. Each further failure doubles it.
const BACK_OFF: Duration = Duration::minutes(1);
const BACK_OFF_MAX: Duration = Duration::hours(6);

/// A due time of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub job: JobId,
    pub at: DateTime<Utc>,
    /// Next due time. None if it is no longer due.
    pub next: Option<DateTime<Utc>>,
    pub what: DueAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueAction {
    Run,
    /// It was missed, and runs late.
    RunLate,
    /// It was missed, and does not run.
    Skip,
}

/// Returns the past due times of these jobs.
pub fn due<'a>(jobs: impl IntoIterator<Item = &'a Job>, now: DateTime<Utc>) -> Vec<Due> {
    let active = jobs.into_iter().filter(|job| job.state == JobState::Active);
    let due = active.filter_map(|job| {
        let at = job.next.filter(|at| *at <= now)?;
        let is_late = now - at > LATE_AFTER;
        let what = match (is_late, job.definition.missed) {
            (false, _) => DueAction::Run,
            // A job that runs once was promised, and runs late.
            (true, Missed::Skip) if job.definition.timing.recurs() => DueAction::Skip,
            (true, _) => DueAction::RunLate,
        };
        Some(Due { job: job.id, at, next: job.definition.timing.next_after(now), what })
    });
    due.collect()
}

/// Returns the next due time of a job, computed anew after its zone has changed, or the clock was set back.
pub fn recomputed_due(job: &Job, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let next = job.next?;
    // A job that is already due stays due.
    if next <= now || !job.definition.timing.recurs() {
        return Some(next);
    }
    let last = job.last.filter(|last| *last <= now + WRONG_AFTER);
    let usual = job.definition.timing.next_after(last.map_or(now, |last| last.max(now)));
    match job.failures {
        0 => usual,
        // A failed job keeps its pause, unless it is longer than the failures explain: then a wrong clock set it.
        failures => usual.map(|usual| next.min(after_failures(failures, usual, now))),
    }
}

/// Returns the next due time of a job after consecutive failures, never before its usual time.
pub fn after_failures(failures: u32, usual: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    let factor = 1_i32 << failures.saturating_sub(1).min(16);
    usual.max(now + (BACK_OFF * factor).min(BACK_OFF_MAX))
}
