//! Background work in a restored backup: stops the tasks in progress, skips the jobs that were due since, and keeps the
//! keys of webhook calls.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::store::Time;
use crate::tasks::schedule::{self, JobScope, JobState};

/// The reason shown to people.
const WHY: &str = "restored from a backup";

/// A job that was due between the backup and now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedJob {
    pub number: i64,
    pub text: String,
    /// Next due time. None if it was to run once, and is paused.
    pub next: Option<DateTime<Utc>>,
}

/// The key of a webhook call that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedWebhookKey {
    hook: String,
    key: String,
    at: Time,
}

/// Returns the keys of the webhook calls that were accepted.
pub fn webhook_keys(store: &Connection) -> rusqlite::Result<Vec<AcceptedWebhookKey>> {
    let mut rows = store.prepare("SELECT hook, key, at FROM webhook_calls")?;
    let keys = rows.query_map([], |row| {
        Ok(AcceptedWebhookKey { hook: row.get(0)?, key: row.get(1)?, at: row.get(2)? })
    })?;
    keys.collect()
}

/// Stores the keys of calls after the backup, so that a repeated call has no second effect. Their jobs are not in the
/// backup.
pub fn keep_webhook_keys(store: &Connection, keys: &[AcceptedWebhookKey]) -> rusqlite::Result<()> {
    let mut keep = store.prepare(
        "INSERT OR IGNORE INTO webhook_calls (hook, key, at, job) VALUES (?, ?, ?, NULL)",
    )?;
    for AcceptedWebhookKey { hook, key, at } in keys {
        keep.execute(params![hook, key, at])?;
    }
    Ok(())
}

/// Stops all running background tasks, and drops alerts that wait. Returns their number.
pub fn end_tasks(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<usize> {
    let stopped = store.execute(
        "UPDATE tasks SET state = 'stopped', ended = ?, words = ifnull(words, ?) WHERE state = 'running'",
        params![Time(now), WHY],
    )?;
    let held = store.execute("UPDATE tasks SET held = 0 WHERE held = 1", [])?;
    Ok(stopped + held)
}

/// Moves the jobs that were due until `now` to their next time, and returns them. A job that was to run once is
/// paused.
pub fn skip_due_jobs(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<Vec<SkippedJob>> {
    let mut passed = Vec::new();
    for job in schedule::list(store, &JobScope::All)? {
        let is_due = job.state == JobState::Active && job.next.is_some_and(|next| next <= now);
        if !is_due {
            continue;
        }
        let next = if job.definition.timing.recurs() {
            job.definition.timing.next_after(now)
        } else {
            None
        };
        match next {
            Some(next) => store.execute(
                "UPDATE jobs SET next = ?, last = ? WHERE id = ?",
                params![Time(next), Time(now), job.id],
            )?,
            None => store.execute(
                "UPDATE jobs SET state = 'paused', why = ? WHERE id = ?",
                params![WHY, job.id],
            )?,
        };
        let text = job.definition.payload.text().to_owned();
        passed.push(SkippedJob { number: job.id.0, text, next });
    }
    Ok(passed)
}
