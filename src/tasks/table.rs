//! The table of background tasks. Tasks of all kinds are numbered, begun, found while they run, settled once and
//! deleted in the same way. The differences between kinds are in their details.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::journal::{RowId, address_params, read_address};
use crate::store::{Json, LenientJson, Time, integer_columns, slice};
use crate::tasks::outcome::{TaskOutcome, TaskState};
use crate::types::message::Address;
use crate::types::origin::TaskKind;
use crate::types::session::{SessionId, TurnId};

/// The id of a row. People see a task's number instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskRow(pub i64);

integer_columns!(TaskRow);

/// The fields that differ between the kinds, in JSON. Unreadable details are replaced by the default ones, so that the
/// task goes on with its other fields, and ends like any other.
pub(super) trait Details: Default + Serialize + DeserializeOwned {
    const KIND: TaskKind;
}

/// A task that is about to begin.
pub(super) struct NewTask<'a, D> {
    pub(super) number: i64,
    /// The due time of a run of a job.
    pub(super) due: Option<DateTime<Utc>>,
    pub(super) session: Option<SessionId>,
    /// The address of its people.
    pub(super) to: &'a Address,
    pub(super) begun: DateTime<Utc>,
    pub(super) details: D,
}

/// A running task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunningTask<D> {
    pub(super) id: TaskRow,
    pub(super) number: i64,
    pub(super) due: Option<DateTime<Utc>>,
    pub(super) session: Option<SessionId>,
    pub(super) to: Address,
    pub(super) begun: DateTime<Utc>,
    pub(super) row: Option<RowId>,
    pub(super) turn: Option<TurnId>,
    pub(super) details: D,
}

/// The part of a task's result that is stored.
#[derive(Clone, Copy, Default)]
pub(super) struct TaskResult<'a> {
    pub(super) words: Option<&'a str>,
    /// True if it may come from untrusted content.
    pub(super) tainted: bool,
}

/// Returns the number of the next task of a kind. A number is never used again.
pub(super) fn next_number(store: &Connection, kind: TaskKind) -> rusqlite::Result<i64> {
    store
        .prepare_cached(
            "INSERT INTO task_numbers (kind, last) VALUES (?, 1)
             ON CONFLICT (kind) DO UPDATE SET last = last + 1 RETURNING last",
        )?
        .query_row([kind], |row| row.get(0))
}

/// Returns the highest number of a kind. 0 if there was none.
pub(super) fn last_number(store: &Connection, kind: TaskKind) -> rusqlite::Result<i64> {
    store
        .prepare_cached("SELECT ifnull(max(last), 0) FROM task_numbers WHERE kind = ?")?
        .query_row([kind], |row| row.get(0))
}

/// Begins a task. None if a run of the job has begun for that due time before.
pub(super) fn begin<D: Details>(
    store: &Connection,
    new: &NewTask<'_, D>,
) -> rusqlite::Result<Option<TaskRow>> {
    let NewTask { number, due, session, to, begun, details } = new;
    let job = (D::KIND == TaskKind::Job).then_some(number);
    let (channel, chat, thread) = address_params(to);
    let begun = store
        .prepare_cached(
            "INSERT INTO tasks (kind, number, job, due, session, channel, chat, thread, begun, state, details)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?) ON CONFLICT (job, due) DO NOTHING",
        )?
        .execute(params![
            D::KIND,
            number,
            job,
            due.map(Time),
            session,
            channel,
            chat,
            thread,
            Time(*begun),
            Json(details)
        ])?;
    Ok((begun > 0).then(|| TaskRow(store.last_insert_rowid())))
}

/// Stores the row of the journal in which a task's assignment waits, and the session of its turn, if that is the
/// task's own.
pub(super) fn set_row(
    store: &Connection,
    task: TaskRow,
    row: RowId,
    session: Option<SessionId>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE tasks SET row = ?, session = ? WHERE id = ?")?
        .execute(params![row, session, task])
        .map(drop)
}

/// Stores that a turn with these rows works on the tasks whose assignments they are.
pub fn turn_begun(store: &Connection, rows: &[RowId], turn: TurnId) -> rusqlite::Result<()> {
    let mut begin =
        store.prepare_cached("UPDATE tasks SET turn = ? WHERE row = ? AND state = 'running'")?;
    rows.iter().try_for_each(|row| begin.execute(params![turn, row]).map(drop))
}

/// Returns the running tasks of a kind, oldest first.
pub(super) fn running<D: Details>(store: &Connection) -> rusqlite::Result<Vec<RunningTask<D>>> {
    select(store, "kind = ?", [D::KIND])
}

/// Returns the task while it runs.
pub(super) fn running_row<D: Details>(
    store: &Connection,
    task: TaskRow,
) -> rusqlite::Result<Option<RunningTask<D>>> {
    Ok(select(store, "id = ?", [task])?.pop())
}

/// Returns the running task with a number; for a job, its run.
pub(super) fn running_number<D: Details>(
    store: &Connection,
    number: i64,
) -> rusqlite::Result<Option<RunningTask<D>>> {
    Ok(select(store, "kind = ? AND number = ?", params![D::KIND, number])?.pop())
}

/// Returns the running task of a kind on which a turn works.
pub(super) fn running_in<D: Details>(
    store: &Connection,
    turn: TurnId,
) -> rusqlite::Result<Option<RunningTask<D>>> {
    Ok(select(store, "turn = ? AND kind = ?", params![turn, D::KIND])?.pop())
}

/// Returns the turns after this one that worked on tasks of a kind that began since a time, running or not, with the
/// details of the tasks.
pub(super) fn turns_after<D: Details>(
    store: &Connection,
    turn: TurnId,
    since: DateTime<Utc>,
) -> rusqlite::Result<Vec<(TurnId, D)>> {
    let mut rows = store.prepare_cached(
        "SELECT turn, details FROM tasks WHERE kind = ? AND begun >= ? AND turn > ? ORDER BY turn",
    )?;
    rows.query_map(params![D::KIND, Time(since), turn], |row| {
        Ok((row.get(0)?, row.get::<_, LenientJson<D>>(1)?.0.unwrap_or_default()))
    })?
    .collect()
}

fn select<D: Details>(
    store: &Connection,
    condition: &str,
    params: impl Params,
) -> rusqlite::Result<Vec<RunningTask<D>>> {
    let mut rows = store.prepare_cached(&format!(
        "SELECT channel, chat, thread, id, number, due, session, begun, row, turn, details FROM tasks
         WHERE state = 'running' AND {condition} ORDER BY id"
    ))?;
    rows.query_map(params, read_task)?.collect()
}

fn read_task<D: Details>(row: &Row<'_>) -> rusqlite::Result<RunningTask<D>> {
    Ok(RunningTask {
        to: read_address(row)?,
        id: row.get(3)?,
        number: row.get(4)?,
        due: row.get::<_, Option<Time>>(5)?.map(|due| due.0),
        session: row.get(6)?,
        begun: row.get::<_, Time>(7)?.0,
        row: row.get(8)?,
        turn: row.get(9)?,
        details: row.get::<_, LenientJson<D>>(10)?.0.unwrap_or_default(),
    })
}

pub(super) fn is_running(store: &Connection, task: TaskRow) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM tasks WHERE id = ? AND state = 'running'")?.exists([task])
}

/// Changes the details of a running task. Returns false if it has ended.
pub(super) fn set_details<D: Details>(
    store: &Connection,
    task: TaskRow,
    details: &D,
) -> rusqlite::Result<bool> {
    let changed = store
        .prepare_cached("UPDATE tasks SET details = ? WHERE id = ? AND state = 'running'")?
        .execute(params![Json(details), task])?;
    Ok(changed > 0)
}

/// Settles a task once. Returns false if it was settled before.
pub(super) fn settle(
    store: &Connection,
    task: TaskRow,
    ended: TaskOutcome,
    at: DateTime<Utc>,
    result: TaskResult<'_>,
) -> rusqlite::Result<bool> {
    let settled = store
        .prepare_cached(
            "UPDATE tasks SET state = ?, ended = ?, words = ?, tainted = ?
             WHERE id = ? AND state = 'running'",
        )?
        .execute(params![TaskState::Ended(ended), Time(at), result.words, result.tainted, task])?;
    Ok(settled > 0)
}

/// Returns the time at which the last task began, by our clock at that time.
pub(super) fn last_begun(store: &Connection) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let last = store
        .prepare_cached("SELECT begun FROM tasks ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| row.get::<_, Time>(0))
        .optional()?;
    Ok(last.map(|last| last.0))
}

/// Deletes a slice of the tasks of a kind that began before a time and have ended. Returns their number.
pub(super) fn prune(
    store: &Connection,
    kind: TaskKind,
    before: DateTime<Utc>,
) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "DELETE FROM tasks WHERE id IN (SELECT id FROM tasks
             WHERE kind = ? AND begun < ? AND state <> 'running' ORDER BY begun LIMIT ?)",
        )?
        .execute(params![kind, Time(before), slice()])
}
