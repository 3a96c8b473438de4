//! Runs: each due time is claimed before anything begins, and remembered with what came of it. A run with a
//! turn is a row of the journal, which a crash cannot lose or double.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{self, Fate, RowId};
use crate::conversation::{task_sessions, transcript};
use crate::store::{Time, slice};
use crate::tasks::schedule::job::{self, Illegible, Job, JobId};
use crate::tasks::{DEPENDENTS, Ended};
use crate::types::message::{Address, ChannelName, SenderId};
use crate::types::origin::{Origin, TaskKind};
use crate::types::session::TurnId;

/// Runs that work at a time, in all; each costs tokens, or what the machine has. One that waits for a person
/// does not count, nor does one whose channel is not here.
pub const AT_ONCE_MAX: usize = 4;

/// Runs of a job that are remembered.
pub const HISTORY_MAX: i64 = 50;

/// A run that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: i64,
    pub job: Job,
    pub due: DateTime<Utc>,
    /// It was missed when it was due.
    pub late: bool,
    /// Its task in the journal; none: a command has not ended, or it has no turn.
    pub row: Option<RowId>,
    /// The turn that works on it.
    pub turn: Option<TurnId>,
    /// Its task was handed to the conversation at the job's address, and not to a session of its own; known
    /// by its row, as the job may have been changed since.
    pub is_here: bool,
}

impl Run {
    /// What its turn works for, in a session of its own.
    pub fn origin(&self) -> Origin {
        self.job.id.task().origin(&self.job.brief.known_on)
    }
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    pub due: DateTime<Utc>,
    pub claimed: DateTime<Utc>,
    pub late: bool,
    /// `running`, or how it ended.
    pub state: String,
    pub words: Option<String>,
}

impl Past {
    /// Returns true if its words are the program's, and say what went wrong.
    pub(super) fn has_failed(&self) -> bool {
        [Ended::Failed, Ended::Interrupted].iter().any(|ended| ended.as_str() == self.state)
    }
}

/// Writes a run down, before anything begins; none if that due time was claimed before.
pub(super) fn claim(
    store: &Connection,
    job: JobId,
    due: DateTime<Utc>,
    late: bool,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<i64>> {
    let claimed = store
        .prepare_cached(
            "INSERT OR IGNORE INTO runs (job, due, claimed, late, state) VALUES (?, ?, ?, ?, 'running')",
        )?
        .execute(params![job, Time(due), Time(now), late])?;
    if claimed == 0 {
        return Ok(None);
    }
    let id = store.last_insert_rowid();
    store
        .prepare_cached(
            "DELETE FROM runs WHERE job = ?1 AND id <= (SELECT id FROM runs WHERE job = ?1
             ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![job, HISTORY_MAX])?;
    Ok(Some(id))
}

/// A turn has begun with these rows; those of jobs know it by that.
pub fn begun(store: &Connection, rows: &[RowId], turn: TurnId) -> rusqlite::Result<()> {
    let mut begin =
        store.prepare_cached("UPDATE runs SET turn = ? WHERE row = ? AND state = 'running'")?;
    rows.iter().try_for_each(|row| begin.execute(params![turn, row]).map(drop))
}

const RUNS: &str = "SELECT id, job, due, late, row, turn";
const RUNNING: &str = "state = 'running'";

/// The run on which a turn works.
pub fn of_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<Run>> {
    one(store, "turn", turn.0)
}

/// The run of a job that works.
pub fn of_job(store: &Connection, job: JobId) -> rusqlite::Result<Option<Run>> {
    one(store, "job", job.0)
}

fn one(store: &Connection, column: &str, id: i64) -> rusqlite::Result<Option<Run>> {
    let found = store
        .prepare_cached(&format!("{RUNS} FROM runs WHERE {RUNNING} AND {column} = ?"))?
        .query_row([id], head)
        .optional()?;
    found.map_or(Ok(None), |found| with_job(store, found))
}

/// A run without its job.
#[derive(Clone, Copy)]
struct Head {
    id: i64,
    job: JobId,
    due: DateTime<Utc>,
    late: bool,
    row: Option<RowId>,
    turn: Option<TurnId>,
}

fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head {
        id: row.get(0)?,
        job: row.get(1)?,
        due: row.get::<_, Time>(2)?.0,
        late: row.get(3)?,
        row: row.get(4)?,
        turn: row.get(5)?,
    })
}

fn with_job(store: &Connection, head: Head) -> rusqlite::Result<Option<Run>> {
    let Head { id, job, due, late, row, turn } = head;
    let Some(job) = job::even_removed(store, job)? else { return Ok(None) };
    let origin = row.map_or(Ok(None), |row| journal::origin_of(store, row))?;
    let is_here = origin.is_some_and(|origin| origin.task().is_none());
    Ok(Some(Run { id, job, due, late, row, turn, is_here }))
}

/// A run of which a command is to be run, or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commanded {
    pub run: Run,
    pub began: bool,
}

/// The runs whose commands have not ended.
pub fn commanded(store: &Connection) -> rusqlite::Result<Vec<Commanded>> {
    let mut rows = store.prepare_cached(&format!(
        "{RUNS}, began IS NOT NULL FROM runs WHERE {RUNNING} AND row IS NULL"
    ))?;
    let rows = rows.query_map([], |row| Ok((head(row)?, row.get(6)?)))?;
    let mut found = Vec::new();
    for row in rows {
        let (head, began) = row?;
        found.extend(with_job(store, head)?.map(|run| Commanded { run, began }));
    }
    Ok(found)
}

/// Runs whose row had its outcome without them: it was withdrawn with all that waited, say.
pub(super) fn stray(store: &Connection) -> rusqlite::Result<Vec<(Run, Ended)>> {
    let mut rows =
        store.prepare_cached(&format!("{RUNS} FROM runs WHERE {RUNNING} AND row IS NOT NULL"))?;
    let heads = rows.query_map([], head)?;
    let mut stray = Vec::new();
    for head in heads {
        let head = head?;
        let outcome = head.row.map_or(Ok(None), |row| journal::outcome_of(store, row))?;
        let ended = match outcome {
            None => continue,
            Some(Fate::Answered) => Ended::Done,
            Some(Fate::Refused) => Ended::Failed,
            Some(
                Fate::Obeyed | Fate::Stopped | Fate::Late | Fate::Withdrawn | Fate::TurnedAway,
            ) => Ended::Stopped,
        };
        stray.extend(with_job(store, head)?.map(|run| (run, ended)));
    }
    Ok(stray)
}

/// A job of which a run works.
pub(super) struct Working {
    pub(super) job: JobId,
    /// It is one of those that work at a time.
    pub(super) counts: bool,
}

/// Jobs that cannot be read and of which runs work, each with why. Nothing else finds such a run, and it would
/// be one of [`AT_ONCE_MAX`] for ever.
pub(super) fn unread(store: &Connection) -> rusqlite::Result<Vec<Illegible>> {
    let mut rows =
        store.prepare_cached(&format!("SELECT DISTINCT job FROM runs WHERE {RUNNING}"))?;
    let jobs = rows.query_map([], |row| row.get(0))?;
    let mut found = Vec::new();
    for job in jobs.collect::<rusqlite::Result<Vec<_>>>()? {
        found.extend(job::illegible(store, job)?);
    }
    Ok(found)
}

/// Jobs of which runs work, on a machine with these channels.
pub(super) fn working(
    store: &Connection,
    channels: &BTreeSet<ChannelName>,
) -> rusqlite::Result<Vec<Working>> {
    let mut rows = store.prepare_cached(
        "SELECT r.job, j.channel, j.known_on, r.turn FROM runs r JOIN jobs j ON j.id = r.job
         WHERE r.state = 'running'",
    )?;
    let mut rows = rows.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let is_served = channels.contains(&row.get(1)?) && channels.contains(&row.get(2)?);
        let turn: Option<TurnId> = row.get(3)?;
        let waits = turn.map_or(Ok(false), |turn| transcript::is_parked(store, turn))?;
        found.push(Working { job: row.get(0)?, counts: is_served && !waits });
    }
    Ok(found)
}

/// When the last run was claimed, by our clock of then.
pub(super) fn last_claimed(store: &Connection) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let last = store
        .prepare_cached("SELECT claimed FROM runs ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| row.get::<_, Time>(0))
        .optional()?;
    Ok(last.map(|last| last.0))
}

/// The runs that work in no conversation with people, and whose answers go to an address: all of them, or
/// one person's.
pub fn running_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Run>> {
    let mut rows = store.prepare_cached(&format!("{RUNS} FROM runs WHERE {RUNNING}"))?;
    let heads = rows.query_map([], head)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut found = Vec::new();
    for head in heads {
        found.extend(with_job(store, head)?.filter(|run| {
            let brief = &run.job.brief;
            !run.is_here && brief.to == *at && whose.is_none_or(|whose| brief.sender.id == *whose)
        }));
    }
    Ok(found)
}

/// The last runs of a job, the newest first.
pub fn history(store: &Connection, job: JobId, most: i64) -> rusqlite::Result<Vec<Past>> {
    let mut rows = store.prepare_cached(
        "SELECT due, claimed, late, state, words FROM runs WHERE job = ? ORDER BY id DESC LIMIT ?",
    )?;
    rows.query_map(params![job, most], |row| {
        Ok(Past {
            due: job::time(row, 0)?.unwrap_or_default(),
            claimed: job::time(row, 1)?.unwrap_or_default(),
            late: row.get(2)?,
            state: row.get(3)?,
            words: row.get(4)?,
        })
    })?
    .collect()
}

/// Forgets jobs that ended before a time, with their runs, and the conversations of runs before it. A slice
/// at a time; returns how many.
pub fn prune(store: &Connection, until: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut over = store.prepare_cached(
        "SELECT id FROM jobs WHERE state IN ('done', 'removed') AND made < ?1
         AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job = jobs.id
                         AND (r.state = 'running' OR r.claimed >= ?1)) ORDER BY made LIMIT ?2",
    )?;
    let over = over
        .query_map(params![Time(until), slice()], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    for job in &over {
        store.prepare_cached("DELETE FROM runs WHERE job = ?")?.execute([job])?;
        store.prepare_cached("DELETE FROM jobs WHERE id = ?")?.execute([job])?;
    }
    Ok(over.len() + task_sessions::prune(store, TaskKind::Job, until, &DEPENDENTS)?)
}
