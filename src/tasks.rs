//! Background tasks: subagents, runs of jobs and heartbeat runs. They share one table and one set of states; each kind
//! decides when it begins. A background task has a session of its own, and its assignment waits in the journal like any
//! message, so the agent loop begins its turn, resumes it after a crash, counts its attempts and bounds it like any
//! other. Not here: the consequences of its end (`turn::background`).

mod outcome;
mod table;
mod assignment;
pub mod blanking;
pub mod subagents;
pub mod schedule;
pub mod deferred_report;
pub mod heartbeat;
pub mod restored;

pub use outcome::{TaskOutcome, TaskState};
pub use table::{TaskRow, turn_begun};

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use crate::conversation::task_sessions;
use crate::types::origin::TaskKind;

/// Deletes a slice of the tasks of a kind that began before a time, and one of their conversations that ended before it.
/// Runs of a job stay as long as the job. Returns the number of deleted rows.
pub fn prune(store: &Connection, kind: TaskKind, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let tasks = match kind {
        TaskKind::Job => schedule::prune(store, before)?,
        _ => table::prune(store, kind, before)?,
    };
    Ok(tasks + task_sessions::prune(store, kind, before)?)
}
