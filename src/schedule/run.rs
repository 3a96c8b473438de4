//! Runs: each due time is claimed before anything begins, and settled in the transaction of what came of
//! it. A run with a turn is a row of the journal, which a crash cannot lose or double.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::due::after_failures;
use super::job::{self, Job, JobId, Payload, State, Where};
use crate::bus::journal::{self, RowId};
use crate::bus::outbox;
use crate::errands::{self, Handed, Kind, Terms};
use crate::message::{Address, Cause, Inbound, Said, SenderId};
use crate::people;
use crate::replies;
use crate::session::TurnId;

/// Runs that work at a time, in all; each costs tokens.
pub const AT_ONCE_MAX: usize = 4;

/// Runs of a job that are remembered.
pub const HISTORY_MAX: i64 = 50;

/// Failures in a row after which the owner is told.
pub const FAILURES_TOLD: u32 = 2;

/// Failures in a row after which a job is paused.
pub const FAILURES_MAX: u32 = 10;

/// What of its outcome is remembered, in characters.
const WORDS_CHARS_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Done,
    /// There was nothing to say.
    Silent,
    Failed,
    Stopped,
    /// It was cut off, and nobody knows how far it had got.
    Interrupted,
    /// It was missed, and is not made up for.
    Skipped,
}

impl Ended {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Silent => "silent",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
            Self::Skipped => "skipped",
        }
    }
}

/// A run that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: i64,
    pub job: Job,
    pub due: DateTime<Utc>,
    /// It was missed when it was due.
    pub late: bool,
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

/// Writes a run down, before anything begins; none if that due time was claimed before.
pub(super) fn claim(
    store: &Connection,
    job: JobId,
    (due, late): (DateTime<Utc>, bool),
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<i64>> {
    let claimed = store
        .prepare_cached(
            "INSERT OR IGNORE INTO runs (job, due, claimed, late, state) VALUES (?, ?, ?, ?, 'running')",
        )?
        .execute(params![job.0, due.timestamp_millis(), now.timestamp_millis(), late])?;
    if claimed == 0 {
        return Ok(None);
    }
    let id = store.last_insert_rowid();
    store
        .prepare_cached(
            "DELETE FROM runs WHERE job = ?1 AND id <= (SELECT id FROM runs WHERE job = ?1
             ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute([job.0, HISTORY_MAX])?;
    Ok(Some(id))
}

/// Begins what a run is for; what only sends a text has ended with that.
pub(super) fn begin(store: &Connection, run: &Run, now: DateTime<Utc>) -> rusqlite::Result<()> {
    let Job { id, to, known_on, place, sender, payload, .. } = &run.job;
    let (due, late, tainted) = (run.due, run.late, run.job.tainted);
    let cause = Cause::Job { job: id.0, due, late, tainted, sender: sender.clone() };
    // A due time can come round a second time, where a clock was wrong; a run cannot.
    let key = id.errand().key(Some(run.id));
    let row = match payload {
        Payload::Message(text) => {
            outbox::put(store, to, None, &told(run, text))?;
            return settle(store, run, Ended::Done, None, now);
        }
        Payload::Prompt { text, session: Where::Own } => {
            let terms =
                Terms { known_on: known_on.clone(), place: *place, settings: "{}".to_owned() };
            let session = errands::open(store, Kind::Job, &terms)?;
            errands::hand(store, id.errand(), (session, &terms), Handed { text, cause, key })?
        }
        Payload::Prompt { text, session: Where::Here } => {
            let inbound = Inbound {
                key,
                at: Utc::now(),
                from: to.clone(),
                place: *place,
                within: Vec::new(),
                cause,
                id: None,
                body: Said::text(text),
            };
            journal::add(store, &inbound, false, None)?
        }
    };
    store.prepare_cached("UPDATE runs SET row = ? WHERE id = ?")?.execute([row.0, run.id])?;
    Ok(())
}

/// What people are sent: of what was promised once and comes late, with a word about that.
pub fn told(run: &Run, words: &str) -> String {
    match run.late && !run.job.timing.recurs() {
        true => replies::late_job(run.due, words),
        false => words.to_owned(),
    }
}

/// A turn has begun with these rows; those of jobs know it by that.
pub fn begun(store: &Connection, rows: &[RowId], turn: TurnId) -> rusqlite::Result<()> {
    let mut begin =
        store.prepare_cached("UPDATE runs SET turn = ? WHERE row = ? AND state = 'running'")?;
    rows.iter().try_for_each(|row| begin.execute([turn.0, row.0]).map(drop))
}

const RUNS: &str = "SELECT id, job, due, late FROM runs WHERE state = 'running'";

/// The run on which a turn works.
pub fn of_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<Run>> {
    one(store, &format!("{RUNS} AND turn = ?"), turn.0)
}

/// The run of a job that works.
pub fn of_job(store: &Connection, job: JobId) -> rusqlite::Result<Option<Run>> {
    one(store, &format!("{RUNS} AND job = ?"), job.0)
}

fn one(store: &Connection, sql: &str, id: i64) -> rusqlite::Result<Option<Run>> {
    let found = store.prepare_cached(sql)?.query_row([id], head).optional()?;
    found.map_or(Ok(None), |found| with_job(store, found))
}

type Head = (i64, JobId, DateTime<Utc>, bool);

fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    let due = job::time(row, 2)?.unwrap_or_default();
    Ok((row.get(0)?, JobId(row.get(1)?), due, row.get(3)?))
}

fn with_job(store: &Connection, (id, job, due, late): Head) -> rusqlite::Result<Option<Run>> {
    let job = job::even_removed(store, job)?;
    Ok(job.map(|job| Run { id, job, due, late }))
}

/// Runs whose row had its outcome without them: it was withdrawn with all that waited, say.
pub(super) fn stray(store: &Connection) -> rusqlite::Result<Vec<(Run, Ended)>> {
    let mut rows = store.prepare_cached(
        "SELECT r.id, r.job, r.due, r.late, i.outcome FROM runs r
         JOIN inbound i ON i.id = r.row WHERE r.state = 'running' AND i.state = 'done'",
    )?;
    let rows = rows.query_map([], |row| Ok((head(row)?, row.get::<_, Option<String>>(4)?)))?;
    let mut stray = Vec::new();
    for row in rows {
        let (head, outcome) = row?;
        let ended = match outcome.as_deref() {
            Some("answered") => Ended::Done,
            Some("refused") => Ended::Failed,
            _ => Ended::Stopped,
        };
        stray.extend(with_job(store, head)?.map(|run| (run, ended)));
    }
    Ok(stray)
}

/// Jobs of which a run works.
pub(super) fn running(store: &Connection) -> rusqlite::Result<Vec<JobId>> {
    let mut rows = store.prepare_cached("SELECT job FROM runs WHERE state = 'running'")?;
    rows.query_map([], |row| row.get(0).map(JobId))?.collect()
}

/// The runs in sessions of their own whose answers go to an address: all of them, or one person's.
pub fn running_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Run>> {
    let mut found = Vec::new();
    for id in running(store)? {
        let run = of_job(store, id)?;
        found.extend(run.filter(|run| {
            let is_own = matches!(run.job.payload, Payload::Prompt { session: Where::Own, .. });
            is_own && run.job.to == *at && whose.is_none_or(|whose| run.job.sender.id == *whose)
        }));
    }
    Ok(found)
}

/// Settles a run, with what follows from it for its job; in the transaction of what came of it. Nothing
/// if it was settled before.
pub fn settle(
    store: &Connection,
    run: &Run,
    ended: Ended,
    words: Option<&str>,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let kept: Option<String> = words.map(|words| words.chars().take(WORDS_CHARS_MAX).collect());
    let settled = store
        .prepare_cached(
            "UPDATE runs SET state = ?, ended = ?, words = ? WHERE id = ? AND state = 'running'",
        )?
        .execute(params![ended.as_str(), now.timestamp_millis(), kept, run.id])?;
    if settled == 0 {
        return Ok(());
    }
    // It may have been changed since the run began.
    let Some(mut job) = job::even_removed(store, run.job.id)? else { return Ok(()) };
    let reason = words.unwrap_or_default();
    match ended {
        Ended::Done | Ended::Silent => job.failures = 0,
        Ended::Failed | Ended::Interrupted => failed(store, &mut job, ended, reason, now)?,
        Ended::Stopped | Ended::Skipped => {}
    }
    if job.state == State::Active && job.next.is_none() {
        job.state = State::Done;
    }
    job::update(store, &job)
}

fn failed(
    store: &Connection,
    job: &mut Job,
    ended: Ended,
    reason: &str,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    job.failures += 1;
    let owner = people::owner_place(store)?.unwrap_or_else(|| job.to.clone());
    let (id, about) = (job.id.0, job.payload.text());
    let Some(next) = job.next else {
        // It is not tried again: what it had done would be done twice.
        outbox::put(store, &job.to, None, &replies::job_failed(id, about, reason))?;
        return Ok(());
    };
    job.next = Some(after_failures(job.failures, next, now));
    match job.failures {
        FAILURES_MAX.. => {
            job.state = State::Paused;
            job.why = Some(replies::failed_too_often(job.failures));
            let words = replies::job_paused_itself(id, about, job.failures, reason);
            outbox::put(store, &owner, None, &words)?;
        }
        FAILURES_TOLD => {
            let words = replies::job_fails(id, about, job.failures, reason);
            outbox::put(store, &owner, None, &words)?;
        }
        _ if ended == Ended::Interrupted => {
            outbox::put(store, &owner, None, &replies::job_interrupted(id, about))?;
        }
        _ => {}
    }
    Ok(())
}

/// The last runs of a job, the newest first.
pub fn history(store: &Connection, job: JobId, most: i64) -> rusqlite::Result<Vec<Past>> {
    let mut rows = store.prepare_cached(
        "SELECT due, claimed, late, state, words FROM runs WHERE job = ? ORDER BY id DESC LIMIT ?",
    )?;
    rows.query_map([job.0, most], |row| {
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

/// Forgets jobs that ended before a time, with their runs, and the conversations of runs before it.
pub fn prune(store: &Connection, until: DateTime<Utc>) -> rusqlite::Result<()> {
    let before = until.timestamp_millis();
    let over = "SELECT id FROM jobs WHERE state IN ('done', 'removed') AND made < ?1
                AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job = jobs.id
                                AND (r.state = 'running' OR r.claimed >= ?1))";
    store.execute(&format!("DELETE FROM runs WHERE job IN ({over})"), [before])?;
    store.execute(&format!("DELETE FROM jobs WHERE id IN ({over})"), [before])?;
    errands::prune(store, Kind::Job, until)
}
