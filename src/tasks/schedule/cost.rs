//! The expected cost of a job: of a run, by the cost of its past runs, and of a month, by its due times.

use chrono::{DateTime, Duration, Utc};
use rusqlite::Connection;

use super::job::Job;
use super::timing::Timing;
use crate::conversation::ledger::{USAGE_PERIOD, spent_on_job};
use crate::provider::prices::Cost;

/// Maximum number of due times that are counted. The number in a month is extrapolated from them.
const COUNTED_MAX: i32 = 200;

const MONTH: Duration = Duration::days(30);

/// The expected cost of a job that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobCost {
    pub run: Cost,
    /// The cost of 30 days.
    pub month: Cost,
    /// Number of runs that called a model in the last 30 days.
    pub runs: u64,
}

/// Returns the expected cost of a job. None if it has not run, costs nothing or does not repeat.
pub fn expected_cost(
    store: &Connection,
    job: &Job,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<JobCost>> {
    let spent = spent_on_job(store, job.id.0, now - USAGE_PERIOD)?;
    let Some(runs_a_month) = runs_a_month(&job.definition.timing, now) else { return Ok(None) };
    let Some(run) = spent.cost.0.checked_div(spent.runs).filter(|run| *run > 0) else {
        return Ok(None);
    };
    let month = Cost(run.saturating_mul(runs_a_month));
    Ok(Some(JobCost { run: Cost(run), month, runs: spent.runs }))
}

/// Returns the number of due times in 30 days. None for a job that runs once.
pub fn runs_a_month(timing: &Timing, now: DateTime<Utc>) -> Option<u64> {
    match timing {
        Timing::At(_) => None,
        Timing::Every { seconds, .. } => {
            u64::try_from(MONTH.num_seconds() / (*seconds).max(1)).ok()
        }
        Timing::Cron { .. } => {
            let (mut last, mut counted) = (now, 0);
            while counted < COUNTED_MAX {
                match timing.next_after(last).filter(|next| *next <= now + MONTH) {
                    Some(next) => (last, counted) = (next, counted + 1),
                    None => return u64::try_from(counted).ok(),
                }
            }
            let seconds = (last - now).num_seconds().max(1);
            u64::try_from(i64::from(counted) * MONTH.num_seconds() / seconds).ok()
        }
    }
}
