//! The table of jobs: their work, due times, persons, and addresses for results.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bus::journal::{address_params, read_address};
use crate::people::People;
use crate::people::persons::PersonAccount;
use crate::store::{Json, Time, integer_columns, text_columns};
use crate::tasks::schedule::needs::CommandNeeds;
use crate::tasks::schedule::payload::Payload;
use crate::tasks::schedule::timing::Timing;
use crate::types::message::{Address, ChannelName, ChatKind, Sender, SenderId};
use crate::types::origin::{TaskId, TaskKind};
use crate::types::words::words;

/// The number of a job, which people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub i64);

integer_columns!(JobId);

impl JobId {
    /// Returns the background task of its runs that have a session of their own.
    pub fn task(self) -> TaskId {
        TaskId::new(TaskKind::Job, self.0)
    }
}

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

// Handling of due times at which the daemon did not run. Doc comments here would be part of each prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Missed {
    // One run replaces all missed ones.
    #[default]
    Once,
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Active,
    Paused,
    /// It is no longer due.
    Done,
    Removed,
}

words!(JobState { Active = "active", Paused = "paused", Done = "done", Removed = "removed" });

text_columns!(JobState = |word| Self::parse(word).unwrap_or(Self::Removed));

/// The definition of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDefinition {
    /// The address for its results.
    pub to: Address,
    /// The channel on which its person is known.
    pub known_on: ChannelName,
    /// The kind of chat for which its runs work. Group also for a private chat of somebody else than its person.
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
    pub definition: JobDefinition,
    pub state: JobState,
    /// The reason why it is paused.
    pub why: Option<String>,
    /// Next due time. None if it is no longer due.
    pub next: Option<DateTime<Utc>>,
    /// The last due time that was claimed.
    pub last: Option<DateTime<Utc>>,
    /// Number of consecutive failures.
    pub failures: u32,
    pub made: DateTime<Utc>,
}

/// The jobs that a person may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobScope {
    All,
    /// All jobs, for an owner, but of other people's private ones only their times.
    Owner(OtherAuthors),
    /// The jobs of one person, with the channel on which they are known.
    Of(ChannelName, SenderId),
    /// The jobs of one person whose results go to a chat: a group may see and change these.
    OfAt(ChannelName, SenderId, Address),
}

/// The accounts of other people than the reader that have jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherAuthors(Vec<PersonAccount>);

impl JobScope {
    /// Returns the scope of an owner with this account.
    pub fn of_owner(
        store: &Connection,
        people: &People,
        reader: &PersonAccount,
    ) -> rusqlite::Result<Self> {
        let mut others = Vec::new();
        for author in authors(store)? {
            if !people.are_same(store, &author, reader)? {
                others.push(author);
            }
        }
        Ok(Self::Owner(OtherAuthors(others)))
    }

    /// Returns true for a job that may be shown: a group may not see a person's private jobs.
    fn is_shown(&self, job: &Job) -> bool {
        match self {
            Self::All | Self::Owner(_) | Self::Of(..) => true,
            Self::OfAt(_, _, at) => {
                let to = &job.definition.to;
                (&to.channel, &to.chat) == (&at.channel, &at.chat)
            }
        }
    }

    /// Returns true for a job of another person than the reader.
    pub(super) fn is_of_others(&self, job: &Job) -> bool {
        let is_author = |account: &PersonAccount| {
            (&account.channel, &account.sender)
                == (&job.definition.known_on, &job.definition.sender.id)
        };
        matches!(self, Self::Owner(OtherAuthors(others)) if others.iter().any(is_author))
    }

    /// Returns true for a job whose text is private to another person.
    pub(super) fn hides(&self, job: &Job) -> bool {
        job.definition.chat_kind == ChatKind::Private && self.is_of_others(job)
    }

    fn params(&self) -> (Option<&ChannelName>, Option<&SenderId>) {
        match self {
            Self::All | Self::Owner(_) => (None, None),
            Self::Of(channel, sender) | Self::OfAt(channel, sender, _) => {
                (Some(channel), Some(sender))
            }
        }
    }
}

const JOBS: &str =
    "SELECT channel, chat, thread, id, known_on, chat_kind, sender, timing, payload, missed,
    state, why, next, last, failures, made, tainted, needs FROM jobs";

/// Condition for the person in the first two parameters.
const OF: &str = "(?1 IS NULL OR (known_on = ?1 AND CASE WHEN json_valid(sender)
     THEN json_extract(sender, '$.id') END = ?2))";

/// Returns the accounts of all people who have jobs.
fn authors(store: &Connection) -> rusqlite::Result<Vec<PersonAccount>> {
    let mut rows = store.prepare_cached(
        "SELECT DISTINCT known_on, iif(json_valid(sender), json_extract(sender, '$.id'), NULL) FROM jobs
         WHERE state <> 'removed'
             AND CASE WHEN json_valid(sender) THEN json_type(sender, '$.id') END = 'text'",
    )?;
    let account = |row: &Row<'_>| Ok(PersonAccount { channel: row.get(0)?, sender: row.get(1)? });
    rows.query_map([], account)?.collect()
}

pub(super) fn insert(
    store: &Connection,
    definition: &JobDefinition,
    next: DateTime<Utc>,
    made: DateTime<Utc>,
) -> rusqlite::Result<JobId> {
    let (channel, chat, thread) = address_params(&definition.to);
    store
        .prepare_cached(
            "INSERT INTO jobs (channel, chat, thread, known_on, chat_kind, sender, timing, payload, missed,
             state, next, made, tainted, needs) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'active', ?, ?, ?, ?)",
        )?
        .execute(params![
            channel,
            chat,
            thread,
            definition.known_on,
            Json(&definition.chat_kind),
            Json(&definition.sender),
            Json(&definition.timing),
            Json(&definition.payload),
            Json(&definition.missed),
            Time(next),
            Time(made),
            definition.tainted,
            Json(&definition.needs)
        ])?;
    Ok(JobId(store.last_insert_rowid()))
}

/// Stores the changeable fields of a job.
pub(super) fn update(store: &Connection, job: &Job) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE jobs SET timing = ?, payload = ?, missed = ?, state = ?, why = ?, next = ?, last = ?,
             failures = ?, tainted = ?, needs = ?, chat_kind = ? WHERE id = ?",
        )?
        .execute(params![
            Json(&job.definition.timing),
            Json(&job.definition.payload),
            Json(&job.definition.missed),
            job.state,
            job.why,
            job.next.map(Time),
            job.last.map(Time),
            job.failures,
            job.definition.tainted,
            Json(&job.definition.needs),
            Json(&job.definition.chat_kind),
            job.id
        ])?;
    Ok(())
}

/// Returns a job. None if it was removed or is unreadable.
pub fn get(store: &Connection, id: JobId, whose: &JobScope) -> rusqlite::Result<Option<Job>> {
    let (channel, sender) = whose.params();
    let found = store
        .prepare_cached(&format!("{JOBS} WHERE {OF} AND id = ?3 AND state <> 'removed'"))?
        .query_row(params![channel, sender, id], read_job)
        .optional()?;
    Ok(found.and_then(readable_job).filter(|job| whose.is_shown(job)))
}

/// Returns a job, even if it was removed. None if it is unreadable.
pub(super) fn find_even_removed(store: &Connection, id: JobId) -> rusqlite::Result<Option<Job>> {
    let found = store
        .prepare_cached(&format!("{JOBS} WHERE id = ?"))?
        .query_row([id], read_job)
        .optional()?;
    Ok(found.and_then(readable_job))
}

/// Returns a job that cannot be read, with the reason. None if it can be read, or does not exist.
pub(super) fn find_unreadable(
    store: &Connection,
    id: JobId,
) -> rusqlite::Result<Option<UnreadableJob>> {
    let found = store
        .prepare_cached(&format!("{JOBS} WHERE id = ?"))?
        .query_row([id], read_job)
        .optional()?;
    Ok(found.and_then(Result::err))
}

/// Returns the active and paused jobs, in the order of their numbers.
pub fn list(store: &Connection, whose: &JobScope) -> rusqlite::Result<Vec<Job>> {
    let (channel, sender) = whose.params();
    let mut rows = store.prepare_cached(&format!(
        "{JOBS} WHERE {OF} AND state IN ('active', 'paused') ORDER BY id"
    ))?;
    let rows = rows.query_map(params![channel, sender], read_job)?;
    let jobs = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().filter_map(readable_job);
    Ok(jobs.filter(|job| whose.is_shown(job)).collect())
}

/// Returns the active jobs in the order of their due times, and those that cannot be read.
pub(super) fn active(store: &Connection) -> rusqlite::Result<(Vec<Job>, Vec<UnreadableJob>)> {
    due_until(store, DateTime::<Utc>::MAX_UTC)
}

/// Returns the jobs that are due at `now` in the order of their due times, and those that cannot be read. Reads
/// an index, so that jobs that are due later cost nothing.
pub(super) fn due_until(
    store: &Connection,
    now: DateTime<Utc>,
) -> rusqlite::Result<(Vec<Job>, Vec<UnreadableJob>)> {
    let mut rows = store.prepare_cached(&format!(
        "{JOBS} INDEXED BY jobs_due
         WHERE state = 'active' AND next IS NOT NULL AND next <= ? ORDER BY next, id"
    ))?;
    let (mut jobs, mut unread) = (Vec::new(), Vec::new());
    for row in rows.query_map([Time(now)], read_job)? {
        match row? {
            Ok(job) => jobs.push(job),
            Err(unreadable) => unread.push(unreadable),
        }
    }
    Ok((jobs, unread))
}

/// Returns jobs of an account that are due by `until`, in the order of their due times. Reads no later job.
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
    let rows = rows.query_map(params![of.channel, of.sender, Time(until), limit], read_job)?;
    let jobs = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(jobs.into_iter().filter_map(readable_job).collect())
}

/// Returns the due time of the first job on these channels that is due after `now`. Reads no later job.
pub(super) fn next_due(
    store: &Connection,
    now: DateTime<Utc>,
    channels: &BTreeSet<ChannelName>,
) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let mut statement = store.prepare_cached(
        "SELECT next, channel, known_on FROM jobs INDEXED BY jobs_due
         WHERE state = 'active' AND next IS NOT NULL AND next > ? ORDER BY next",
    )?;
    let mut rows = statement.query([Time(now)])?;
    while let Some(row) = rows.next()? {
        if channels.contains(&row.get(1)?) && channels.contains(&row.get(2)?) {
            return time(row, 0);
        }
    }
    Ok(None)
}

/// Pauses a job until a person resumes it; also a job that cannot be read. Returns false if it was removed.
pub(super) fn pause(store: &Connection, id: JobId, why: &str) -> rusqlite::Result<bool> {
    let paused = store
        .prepare_cached(
            "UPDATE jobs SET state = 'paused', why = ? WHERE id = ? AND state <> 'removed'",
        )?
        .execute(params![why, id])?;
    Ok(paused > 0)
}

/// Removes a job that cannot be read. Returns false if there is none.
pub(super) fn remove_unreadable(
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

/// Returns the number of a person's active and paused jobs.
pub(super) fn count(store: &Connection, whose: &JobScope) -> rusqlite::Result<usize> {
    let (channel, sender) = whose.params();
    store
        .prepare_cached(&format!(
            "SELECT count(*) FROM jobs WHERE {OF} AND state IN ('active', 'paused')"
        ))?
        .query_row(params![channel, sender], |row| row.get(0))
}

/// A job whose row cannot be read, because another version wrote it or the disk is damaged.
pub(super) struct UnreadableJob {
    pub(super) id: JobId,
    pub(super) why: String,
}

fn readable_job(job: Result<Job, UnreadableJob>) -> Option<Job> {
    job.inspect_err(|unreadable| {
        tracing::warn!(job = %unreadable.id, why = %unreadable.why, "Cannot read a job");
    })
    .ok()
}

/// Reads a job. The outer error concerns the store, the inner one only this job.
fn read_job(row: &Row<'_>) -> rusqlite::Result<Result<Job, UnreadableJob>> {
    let id = row.get(3)?;
    Ok(read_job_columns(row, id).map_err(|error| UnreadableJob { id, why: error.to_string() }))
}

fn read_job_columns(row: &Row<'_>, id: JobId) -> rusqlite::Result<Job> {
    Ok(Job {
        id,
        definition: JobDefinition {
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
