//! Runs of jobs. Each due time is claimed before the work begins, and stored with its outcome. A run with a
//! turn is a row of the journal, which a crash cannot lose or double.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{self, InboundOutcome, RowId};
use crate::conversation::{presence, transcript};
use crate::people::persons::PersonAccount;
use crate::store::{LenientJson, Time, slice};
use crate::tasks::outcome::TaskOutcome;
use crate::tasks::schedule::job::{self, Job, JobId, UnreadableJob};
use crate::tasks::table::{self, Details, NewTask, RunningTask, TaskRow};
use crate::types::message::{Address, ChannelName, SenderId};
use crate::types::origin::{Origin, TaskKind};
use crate::types::session::TurnId;

/// Maximum number of runs that work at a time. Each costs tokens or computing time. Runs that wait for a person, or
/// whose channel does not exist, do not count.
pub const AT_ONCE_MAX: usize = 4;

/// Number of runs that are kept for a job.
pub const HISTORY_MAX: i64 = 50;

/// A running run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: TaskRow,
    pub job: Job,
    pub due: DateTime<Utc>,
    /// True if it was missed at its due time.
    pub late: bool,
    /// Its assignment in the journal. None if its command has not ended, or if it has no turn.
    pub row: Option<RowId>,
    /// The turn that works on it.
    pub turn: Option<TurnId>,
    /// True if its assignment went to the conversation at the job's address, and not to a session of its own.
    /// Derived from its row, because the job may have been changed since.
    pub is_here: bool,
}

impl Run {
    /// Returns the origin of its turn, in a session of its own.
    pub fn origin(&self) -> Origin {
        self.job.id.task().origin(&self.job.definition.known_on)
    }
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRun {
    pub due: DateTime<Utc>,
    pub claimed: DateTime<Utc>,
    pub late: bool,
    /// `running`, or its outcome.
    pub state: String,
    pub words: Option<String>,
}

impl PastRun {
    /// Returns true if it failed, so that its text is an explanation by the program.
    pub(super) fn has_failed(&self) -> bool {
        [TaskOutcome::Failed, TaskOutcome::Interrupted]
            .iter()
            .any(|ended| ended.as_str() == self.state)
    }
}

/// The details of a run in the table of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct RunDetails {
    /// True if it was missed at its due time.
    late: bool,
    /// Time at which its command began, in milliseconds since 1970. A command never begins a second time.
    began: Option<i64>,
}

impl Details for RunDetails {
    const KIND: TaskKind = TaskKind::Job;
}

/// Stores a run before its work begins. None if the due time was claimed before.
pub(super) fn claim(
    store: &Connection,
    job: &Job,
    due: DateTime<Utc>,
    late: bool,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<TaskRow>> {
    let details = RunDetails { late, began: None };
    let (number, to) = (job.id.0, &job.definition.to);
    let new = NewTask { number, due: Some(due), session: None, to, begun: now, details };
    let Some(id) = table::begin(store, &new)? else { return Ok(None) };
    store
        .prepare_cached(
            "DELETE FROM tasks WHERE job = ?1 AND id <= (SELECT id FROM tasks WHERE job = ?1
             ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![job.id, HISTORY_MAX])?;
    Ok(Some(id))
}

/// Returns the run on which a turn works.
pub fn find_turn_run(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<Run>> {
    table::running_in(store, turn)?.map_or(Ok(None), |task| with_job(store, task))
}

/// Returns the running run of a job.
pub fn find_job_run(store: &Connection, job: JobId) -> rusqlite::Result<Option<Run>> {
    table::running_number(store, job.0)?.map_or(Ok(None), |task| with_job(store, task))
}

fn with_job(store: &Connection, task: RunningTask<RunDetails>) -> rusqlite::Result<Option<Run>> {
    let RunningTask { id, number, due, session, begun, row, turn, details, .. } = task;
    let (due, late) = (due.unwrap_or(begun), details.late);
    let is_here = row.is_some() && session.is_none();
    let job = job::find_even_removed(store, JobId(number))?;
    Ok(job.map(|job| Run { id, job, due, late, row, turn, is_here }))
}

/// Stores that the command of a run begins. Returns false if it has begun before, or the run has ended.
pub fn begin_command(
    store: &Connection,
    run: TaskRow,
    now: DateTime<Utc>,
) -> rusqlite::Result<bool> {
    let Some(task) = table::running_row::<RunDetails>(store, run)? else { return Ok(false) };
    if task.details.began.is_some() {
        return Ok(false);
    }
    let details = RunDetails { began: Some(now.timestamp_millis()), ..task.details };
    table::set_details(store, run, &details)
}

/// A run whose command has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRun {
    pub run: Run,
    pub began: bool,
}

/// Returns the runs whose commands have not ended.
pub fn list_command_runs(store: &Connection) -> rusqlite::Result<Vec<CommandRun>> {
    let mut runs = Vec::new();
    let tasks = table::running::<RunDetails>(store)?.into_iter();
    for task in tasks.filter(|task| task.row.is_none()) {
        let began = task.details.began.is_some();
        runs.extend(with_job(store, task)?.map(|run| CommandRun { run, began }));
    }
    Ok(runs)
}

/// Returns the runs whose row has an outcome although they have not ended, for example because all waiting rows were
/// withdrawn.
pub(super) fn stray(store: &Connection) -> rusqlite::Result<Vec<(Run, TaskOutcome)>> {
    let mut stray = Vec::new();
    for task in table::running::<RunDetails>(store)? {
        let outcome = task.row.map_or(Ok(None), |row| journal::outcome_of(store, row))?;
        let ended = match outcome {
            None => continue,
            Some(InboundOutcome::Answered) => TaskOutcome::Done,
            Some(InboundOutcome::Refused) => TaskOutcome::Failed,
            Some(
                InboundOutcome::Handled
                | InboundOutcome::Stopped
                | InboundOutcome::Late
                | InboundOutcome::Withdrawn
                | InboundOutcome::TurnedAway,
            ) => TaskOutcome::Stopped,
        };
        stray.extend(with_job(store, task)?.map(|run| (run, ended)));
    }
    Ok(stray)
}

/// A job with a running run.
pub(super) struct WorkingJob {
    pub(super) job: JobId,
    /// True if it counts for [`AT_ONCE_MAX`].
    pub(super) counts: bool,
}

/// Returns the unreadable jobs that have running runs. No other function finds such a run, which would count for
/// [`AT_ONCE_MAX`] forever.
pub(super) fn list_unreadable(store: &Connection) -> rusqlite::Result<Vec<UnreadableJob>> {
    let mut jobs = Vec::new();
    for task in table::running::<RunDetails>(store)? {
        jobs.extend(job::find_unreadable(store, JobId(task.number))?);
    }
    Ok(jobs)
}

/// Returns the jobs with running runs, for a daemon with these channels.
pub(super) fn working(
    store: &Connection,
    channels: &BTreeSet<ChannelName>,
) -> rusqlite::Result<Vec<WorkingJob>> {
    let mut rows = store.prepare_cached(
        "SELECT r.job, j.channel, j.known_on, r.turn FROM tasks r JOIN jobs j ON j.id = r.job
         WHERE r.state = 'running' AND r.kind = 'job'",
    )?;
    let mut rows = rows.query([])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        let is_served = channels.contains(&row.get(1)?) && channels.contains(&row.get(2)?);
        let turn: Option<TurnId> = row.get(3)?;
        let is_suspended = turn.map_or(Ok(false), |turn| transcript::is_suspended(store, turn))?;
        jobs.push(WorkingJob { job: row.get(0)?, counts: is_served && !is_suspended });
    }
    Ok(jobs)
}

/// Returns the runs with a session of their own whose answers go to an address: all of them, or one
/// person's.
pub fn running_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for task in table::running::<RunDetails>(store)? {
        runs.extend(with_job(store, task)?.filter(|run| {
            let definition = &run.job.definition;
            !run.is_here
                && definition.to == *at
                && whose.is_none_or(|whose| definition.sender.id == *whose)
        }));
    }
    Ok(runs)
}

/// Returns the running runs of an account's jobs, wherever their results go.
pub fn running_of(store: &Connection, account: &PersonAccount) -> rusqlite::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for task in table::running::<RunDetails>(store)? {
        runs.extend(with_job(store, task)?.filter(|run| {
            let definition = &run.job.definition;
            (&definition.known_on, &definition.sender.id) == (&account.channel, &account.sender)
        }));
    }
    Ok(runs)
}

/// Returns the running runs whose results go to private chats that an account reads, whoever made their jobs.
pub fn running_to(store: &Connection, account: &PersonAccount) -> rusqlite::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for task in table::running::<RunDetails>(store)? {
        let Some(run) = with_job(store, task)? else { continue };
        let to = &run.job.definition.to;
        if to.channel == account.channel
            && presence::private_reader(store, to)?.is_some_and(|it| it.id == account.sender)
        {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Returns the last runs of a job, newest first.
pub fn history(store: &Connection, job: JobId, max: i64) -> rusqlite::Result<Vec<PastRun>> {
    let mut rows = store.prepare_cached(
        "SELECT due, begun, details, state, words FROM tasks WHERE job = ? ORDER BY id DESC LIMIT ?",
    )?;
    rows.query_map(params![job, max], |row| {
        Ok(PastRun {
            due: row.get::<_, Time>(0)?.0,
            claimed: row.get::<_, Time>(1)?.0,
            late: row.get::<_, LenientJson<RunDetails>>(2)?.0.unwrap_or_default().late,
            state: row.get(3)?,
            words: row.get(4)?,
        })
    })?
    .collect()
}

/// Deletes a slice of the jobs that ended and had their last run before a time, with their runs. Returns their number.
pub(in crate::tasks) fn prune(store: &Connection, until: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut over = store.prepare_cached(
        "SELECT id FROM jobs WHERE state IN ('done', 'removed') AND made < ?1
         AND NOT EXISTS (SELECT 1 FROM tasks r WHERE r.job = jobs.id
                         AND (r.state = 'running' OR r.begun >= ?1)) ORDER BY made LIMIT ?2",
    )?;
    let over = over
        .query_map(params![Time(until), slice()], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    for job in &over {
        store.prepare_cached("DELETE FROM tasks WHERE job = ?")?.execute([job])?;
        store.prepare_cached("DELETE FROM jobs WHERE id = ?")?.execute([job])?;
    }
    Ok(over.len())
}
