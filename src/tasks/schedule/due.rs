//! Which jobs are due: values in, values out, no clock, no store.

use chrono::{DateTime, Duration, Utc};

use crate::tasks::schedule::job::{Job, JobId, JobState, Missed};

/// A run that was due so long ago is late.
pub const LATE_AFTER: Duration = Duration::minutes(5);

/// A due time that was claimed so far ahead of now was claimed by a clock that was wrong; one that is
/// nearer is not claimed a second time because a clock was set back.
const WRONG_AFTER: Duration = Duration::days(1);

/// The pause after the first failure; each further one doubles it.
const BACK_OFF: Duration = Duration::minutes(1);
const BACK_OFF_MAX: Duration = Duration::hours(6);

/// A due time of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub job: JobId,
    pub at: DateTime<Utc>,
    /// When it is due next; none: not any more.
    pub next: Option<DateTime<Utc>>,
    pub what: DueAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueAction {
    Run,
    /// It was missed, and is made up for.
    RunLate,
    /// It was missed, and is not to be made up for.
    Skip,
}

/// The due times of these jobs that have come.
pub fn due<'a>(jobs: impl IntoIterator<Item = &'a Job>, now: DateTime<Utc>) -> Vec<Due> {
    let active = jobs.into_iter().filter(|job| job.state == JobState::Active);
    let due = active.filter_map(|job| {
        let at = job.next.filter(|at| *at <= now)?;
        let is_late = now - at > LATE_AFTER;
        let what = match (is_late, job.brief.missed) {
            (false, _) => DueAction::Run,
            // What is due once was promised.
            (true, Missed::Skip) if job.brief.timing.recurs() => DueAction::Skip,
            (true, _) => DueAction::RunLate,
        };
        Some(Due { job: job.id, at, next: job.brief.timing.next_after(now), what })
    });
    due.collect()
}

/// When a job is due next if it is reckoned anew: after its zone has changed, or a clock was set back.
pub fn reckoned(job: &Job, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let next = job.next?;
    // What is due already stays due; what failed rests for as long as it was told to.
    if next <= now || !job.brief.timing.recurs() {
        return Some(next);
    }
    let last = job.last.filter(|last| *last <= now + WRONG_AFTER);
    let usual = job.brief.timing.next_after(last.map_or(now, |last| last.max(now)));
    match job.failures {
        0 => usual,
        // But not for longer, which only a clock that was wrong would have said.
        failures => usual.map(|usual| next.min(after_failures(failures, usual, now))),
    }
}

/// When a job is due that has failed so often in a row: not before its usual time.
pub fn after_failures(failures: u32, usual: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    let doubled = 1_i32 << failures.saturating_sub(1).min(16);
    usual.max(now + (BACK_OFF * doubled).min(BACK_OFF_MAX))
}
