//! Jobs as they are kept: what, when, for whom, and where what comes of it goes.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bus::journal::{address_params, read_address};
use crate::people::persons::PersonAccount;
use crate::store::{Json, Time, integer_columns, text_columns};
use crate::tasks::schedule::needs::CommandNeeds;
use crate::tasks::schedule::payload::Payload;
use crate::tasks::schedule::timing::Timing;
use crate::types::message::{Address, ChannelName, ChatKind, Sender, SenderId};
use crate::types::origin::{TaskId, TaskKind};
use crate::types::words::words;

/// A job, by the number that people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub i64);

integer_columns!(JobId);

impl JobId {
    /// The background task of its runs in a session of their own.
    pub fn task(self) -> TaskId {
        TaskId::new(TaskKind::Job, self.0)
    }
}

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

// What becomes of the times at which nobody was running; its doc comments would be part of each prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Missed {
    // All of them together are made up for by one run.
    #[default]
    Once,
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Active,
    Paused,
    /// It is not due any more.
    Done,
    Removed,
}

words!(JobState { Active = "active", Paused = "paused", Done = "done", Removed = "removed" });

text_columns!(JobState = |word| Self::parse(word).unwrap_or(Self::Removed));

/// The definition of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDefinition {
    /// Where what comes of it goes.
    pub to: Address,
    /// The channel on which its person is known.
    pub known_on: ChannelName,
    #[serde(alias = "place")]
    pub chat_kind: ChatKind,
    /// The person who owns it.
    pub sender: Sender,
    pub timing: Timing,
    pub payload: Payload,
    /// The access of its command.
    pub needs: CommandNeeds,
    pub missed: Missed,
    /// True if its author had read untrusted content.
    pub tainted: bool,
}

impl JobDefinition {
    /// Returns the scope of its person.
    pub(super) fn whose(&self) -> JobScope {
        JobScope::Of(self.known_on.clone(), self.sender.id.clone())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    pub brief: JobDefinition,
    pub state: JobState,
    /// It is paused.
    pub why: Option<String>,
    /// When it is due; none: not any more.
    pub next: Option<DateTime<Utc>>,
    /// The last due time that was claimed.
    pub last: Option<DateTime<Utc>>,
    /// In a row.
    pub failures: u32,
    pub made: DateTime<Utc>,
}

/// The jobs that somebody may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobScope {
    All,
    /// Those of one person, by the channel on which they are known.
    Of(ChannelName, SenderId),
    /// Those of one person that go to a chat: what a group may see and change.
    OfAt(ChannelName, SenderId, Address),
}

impl JobScope {
    /// Returns true for a job that may be shown: what somebody planned in private is not for a group.
    fn is_shown(&self, job: &Job) -> bool {
        match self {
            Self::All | Self::Of(..) => true,
            Self::OfAt(_, _, at) => {
                let to = &job.brief.to;
                (&to.channel, &to.chat) == (&at.channel, &at.chat)
            }
        }
    }

    fn params(&self) -> (Option<&ChannelName>, Option<&SenderId>) {
        match self {
            Self::All => (None, None),
            Self::Of(channel, sender) | Self::OfAt(channel, sender, _) => {
                (Some(channel), Some(sender))
            }
        }
    }
}

const JOBS: &str =
    "SELECT channel, chat, thread, id, known_on, chat_kind, sender, timing, payload, missed,
    state, why, next, last, failures, made, tainted, needs FROM jobs";

/// Of these people, in the two first parameters.
const OF: &str = "(?1 IS NULL OR (known_on = ?1 AND CASE WHEN json_valid(sender)
     THEN json_extract(sender, '$.id') END = ?2))";

pub(super) fn insert(
    store: &Connection,
    brief: &JobDefinition,
    next: DateTime<Utc>,
    made: DateTime<Utc>,
) -> rusqlite::Result<JobId> {
    let (channel, chat, thread) = address_params(&brief.to);
    store
        .prepare_cached(
            "INSERT INTO jobs (channel, chat, thread, known_on, chat_kind, sender, timing, payload, missed,
             state, next, made, tainted, needs) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'active', ?, ?, ?, ?)",
        )?
        .execute(params![
            channel,
            chat,
            thread,
            brief.known_on,
            Json(&brief.chat_kind),
            Json(&brief.sender),
            Json(&brief.timing),
            Json(&brief.payload),
            Json(&brief.missed),
            Time(next),
            Time(made),
            brief.tainted,
            Json(&brief.needs)
        ])?;
    Ok(JobId(store.last_insert_rowid()))
}

/// Writes down what can change of a job.
pub(super) fn update(store: &Connection, job: &Job) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE jobs SET timing = ?, payload = ?, missed = ?, state = ?, why = ?, next = ?, last = ?,
             failures = ?, tainted = ?, needs = ? WHERE id = ?",
        )?
        .execute(params![
            Json(&job.brief.timing),
            Json(&job.brief.payload),
            Json(&job.brief.missed),
            job.state,
            job.why,
            job.next.map(Time),
            job.last.map(Time),
            job.failures,
            job.brief.tainted,
            Json(&job.brief.needs),
            job.id
        ])?;
    Ok(())
}

/// One that was not removed, and can be read.
pub fn get(store: &Connection, id: JobId, whose: &JobScope) -> rusqlite::Result<Option<Job>> {
    let (channel, sender) = whose.params();
    let found = store
        .prepare_cached(&format!("{JOBS} WHERE {OF} AND id = ?3 AND state <> 'removed'"))?
        .query_row(params![channel, sender, id], read)
        .optional()?;
    Ok(found.and_then(legible).filter(|job| whose.is_shown(job)))
}

/// One, also if it was removed.
pub(super) fn even_removed(store: &Connection, id: JobId) -> rusqlite::Result<Option<Job>> {
    let found =
        store.prepare_cached(&format!("{JOBS} WHERE id = ?"))?.query_row([id], read).optional()?;
    Ok(found.and_then(legible))
}

/// Why a job cannot be read; none if it can, or if there is none.
pub(super) fn illegible(store: &Connection, id: JobId) -> rusqlite::Result<Option<UnreadableJob>> {
    let found =
        store.prepare_cached(&format!("{JOBS} WHERE id = ?"))?.query_row([id], read).optional()?;
    Ok(found.and_then(Result::err))
}

/// Those that were not removed and are not done, in their order.
pub fn list(store: &Connection, whose: &JobScope) -> rusqlite::Result<Vec<Job>> {
    let (channel, sender) = whose.params();
    let mut rows = store.prepare_cached(&format!(
        "{JOBS} WHERE {OF} AND state IN ('active', 'paused') ORDER BY id"
    ))?;
    let rows = rows.query_map(params![channel, sender], read)?;
    let jobs = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().filter_map(legible);
    Ok(jobs.filter(|job| whose.is_shown(job)).collect())
}

/// Those that may be due once, the first due first; with those that cannot be read.
pub(super) fn active(store: &Connection) -> rusqlite::Result<(Vec<Job>, Vec<UnreadableJob>)> {
    due_until(store, DateTime::<Utc>::MAX_UTC)
}

/// Those that are due at `now`, the first due first; with those that cannot be read. Asks the index: what
/// is due later costs nothing.
pub(super) fn due_until(
    store: &Connection,
    now: DateTime<Utc>,
) -> rusqlite::Result<(Vec<Job>, Vec<UnreadableJob>)> {
    let mut rows = store.prepare_cached(&format!(
        "{JOBS} INDEXED BY jobs_due
         WHERE state = 'active' AND next IS NOT NULL AND next <= ? ORDER BY next, id"
    ))?;
    let (mut jobs, mut illegible) = (Vec::new(), Vec::new());
    for row in rows.query_map([Time(now)], read)? {
        match row? {
            Ok(job) => jobs.push(job),
            Err(broken) => illegible.push(broken),
        }
    }
    Ok((jobs, illegible))
}

/// Returns jobs of an account that are due until then, the first due first. Reads no job that is due later.
pub fn due_soon(
    store: &Connection,
    of: &PersonAccount,
    until: DateTime<Utc>,
    limit: usize,
) -> rusqlite::Result<Vec<Job>> {
    let mut rows = store.prepare_cached(&format!(
        "{JOBS} INDEXED BY jobs_due
         WHERE {OF} AND state = 'active' AND next IS NOT NULL AND next <= ?3
         ORDER BY next, id LIMIT ?4"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = rows.query_map(params![of.channel, of.sender, Time(until), limit], read)?;
    let jobs = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(jobs.into_iter().filter_map(legible).collect())
}

/// When the first job on these channels is due after `now`. Reads no further than that.
pub(super) fn next_due(
    store: &Connection,
    now: DateTime<Utc>,
    channels: &BTreeSet<ChannelName>,
) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let mut later = store.prepare_cached(
        "SELECT next, channel, known_on FROM jobs INDEXED BY jobs_due
         WHERE state = 'active' AND next IS NOT NULL AND next > ? ORDER BY next",
    )?;
    let mut rows = later.query([Time(now)])?;
    while let Some(row) = rows.next()? {
        if channels.contains(&row.get(1)?) && channels.contains(&row.get(2)?) {
            return time(row, 0);
        }
    }
    Ok(None)
}

/// It is done no more until somebody has looked at it; also of a job that cannot be read.
/// False if there is none any more.
pub(super) fn pause(store: &Connection, id: JobId, why: &str) -> rusqlite::Result<bool> {
    let paused = store
        .prepare_cached(
            "UPDATE jobs SET state = 'paused', why = ? WHERE id = ? AND state <> 'removed'",
        )?
        .execute(params![why, id])?;
    Ok(paused > 0)
}

/// Removes one that cannot be read; false if there is none.
pub(super) fn remove_unread(
    store: &Connection,
    id: JobId,
    whose: &JobScope,
) -> rusqlite::Result<bool> {
    let (channel, sender) = whose.params();
    let removed = store
        .prepare_cached(&format!(
            "UPDATE jobs SET state = 'removed', next = NULL WHERE {OF} AND id = ?3
             AND state <> 'removed'"
        ))?
        .execute(params![channel, sender, id])?;
    Ok(removed > 0)
}

/// Removes all jobs of an account.
pub fn remove_all_of(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    store
        .prepare_cached(&format!(
            "UPDATE jobs SET state = 'removed', next = NULL WHERE {OF} AND state <> 'removed'"
        ))?
        .execute(params![account.channel, account.sender])
        .map(drop)
}

/// Returns the number of a person's jobs that are not done.
pub(super) fn count(store: &Connection, whose: &JobScope) -> rusqlite::Result<usize> {
    let (channel, sender) = whose.params();
    store
        .prepare_cached(&format!(
            "SELECT count(*) FROM jobs WHERE {OF} AND state IN ('active', 'paused')"
        ))?
        .query_row(params![channel, sender], |row| row.get(0))
}

/// A row that nobody can make a job of: an older or newer version wrote it, or a disk broke it.
pub(super) struct UnreadableJob {
    pub(super) id: JobId,
    pub(super) why: String,
}

fn legible(found: Result<Job, UnreadableJob>) -> Option<Job> {
    found
        .inspect_err(|broken| {
            tracing::warn!(job = %broken.id, why = %broken.why, "Cannot read a job");
        })
        .ok()
}

/// The outer error is the store's, the inner one the job's alone.
fn read(row: &Row<'_>) -> rusqlite::Result<Result<Job, UnreadableJob>> {
    let id = row.get(3)?;
    Ok(read_whole(row, id).map_err(|error| UnreadableJob { id, why: error.to_string() }))
}

fn read_whole(row: &Row<'_>, id: JobId) -> rusqlite::Result<Job> {
    Ok(Job {
        id,
        brief: JobDefinition {
            to: read_address(row)?,
            known_on: row.get(4)?,
            chat_kind: row.get::<_, Json<_>>(5)?.0,
            sender: row.get::<_, Json<_>>(6)?.0,
            timing: row.get::<_, Json<_>>(7)?.0,
            payload: row.get::<_, Json<_>>(8)?.0,
            missed: row.get::<_, Json<_>>(9)?.0,
            tainted: row.get(16)?,
            needs: row.get::<_, Json<_>>(17)?.0,
        },
        state: row.get(10)?,
        why: row.get(11)?,
        next: time(row, 12)?,
        last: time(row, 13)?,
        failures: row.get(14)?,
        made: row.get::<_, Time>(15)?.0,
    })
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<DateTime<Utc>>> {
    Ok(row.get::<_, Option<Time>>(column)?.map(|at| at.0))
}
