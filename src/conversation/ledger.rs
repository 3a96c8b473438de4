//! The costs of models: every call, with its person, cause, tokens and cost.

pub mod breakdown;
pub mod sums;

use chrono::{DateTime, Duration, Utc};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::people::Role;
use crate::provider::Usage;
use crate::provider::prices::{Cost, Price};
use crate::store::{Time, integer_columns, slice};
use crate::types::origin::TaskKind;
use crate::types::person::PersonId;
use crate::types::persona::PersonaName;
use crate::types::session::{SessionId, TurnId};

/// Why a model is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallCause {
    /// An answer in a conversation.
    Chat,
    /// A side question.
    Aside,
    Compaction,
    /// Notes before a compaction.
    Notes,
    /// Facts that are noticed in conversations.
    Memory,
    /// A background task.
    #[serde(untagged)]
    Task(TaskKind),
}

impl CallCause {
    /// The causes other than background tasks.
    const OWN: [Self; 5] = [Self::Chat, Self::Aside, Self::Compaction, Self::Notes, Self::Memory];

    /// Returns the cause's name, also in the ledger. That of a task is the name of its kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Aside => "aside",
            Self::Compaction => "compaction",
            Self::Notes => "notes",
            Self::Memory => "memory",
            Self::Task(kind) => kind.as_str(),
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        let own = Self::OWN.into_iter().find(|cause| cause.as_str() == word);
        own.or_else(|| TaskKind::parse(word).map(Self::Task))
    }
}

impl ToSql for CallCause {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for CallCause {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for Cost {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(i64::try_from(self.0).unwrap_or(i64::MAX).into())
    }
}

impl FromSql for Cost {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(u64::try_from(value.as_i64()?).unwrap_or_default()))
    }
}

/// On whose account a model is called, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payer {
    /// None of the program's own work, and of rows of former versions.
    pub person: Option<PersonId>,
    pub role: Role,
    pub cause: CallCause,
    /// The number of the job that the call works for.
    pub job: Option<i64>,
    /// The persona of the config in whose name it is called.
    pub persona: Option<PersonaName>,
}

/// A row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerId(pub i64);

integer_columns!(LedgerId);

/// A model call that has ended, or several that are booked together.
#[derive(Clone, Debug)]
pub struct Charge {
    pub payer: Payer,
    pub provider: String,
    pub usage: Usage,
    /// Of attempts that broke off before this one.
    pub wasted: Usage,
    /// None if the price is unknown.
    pub price: Option<Price>,
    /// The reservation of the call.
    pub reserved: Option<LedgerId>,
}

impl Charge {
    fn is_empty(&self) -> bool {
        self.usage == Usage::default() && self.wasted == Usage::default()
    }
}

/// Books what a model call has cost, on a turn or, if that was forgotten meanwhile, on none. The reservation ends with
/// it.
pub(crate) fn enter(store: &Connection, turn: TurnId, charge: &Charge) -> rusqlite::Result<()> {
    if charge.wasted != Usage::default() {
        insert(store, turn, charge, charge.wasted)?;
    }
    if let Some(row) = charge.reserved
        && settle(store, row, turn, charge)?
    {
        return Ok(());
    }
    insert(store, turn, charge, charge.usage)
}

/// The same, but nothing for calls that have used nothing.
pub(crate) fn enter_spent(
    store: &Connection,
    turn: TurnId,
    charge: &Charge,
) -> rusqlite::Result<()> {
    match (charge.is_empty(), charge.reserved) {
        (false, _) => enter(store, turn, charge),
        (true, Some(row)) => release(store, row),
        (true, None) => Ok(()),
    }
}

fn insert(store: &Connection, turn: TurnId, charge: &Charge, usage: Usage) -> rusqlite::Result<()> {
    let Payer { person, cause, job, persona, .. } = charge.payer;
    store
        .prepare_cached(
            "INSERT INTO ledger (turn, session, at, person, cause, job, provider, input, cached, cache_written,
                                 output, cost, persona)
             VALUES ((SELECT id FROM turns WHERE id = ?1), (SELECT session FROM turns WHERE id = ?1),
                     ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            turn,
            Time::now(),
            person,
            cause,
            job,
            charge.provider,
            usage.input,
            usage.cached,
            usage.cache_written,
            usage.output,
            charge.price.map(|price| price.cost(usage)),
            persona.as_ref().map(PersonaName::as_str),
        ])?;
    Ok(())
}

/// False if the reservation is gone.
fn settle(
    store: &Connection,
    row: LedgerId,
    turn: TurnId,
    charge: &Charge,
) -> rusqlite::Result<bool> {
    let usage = charge.usage;
    let settled = store
        .prepare_cached(
            "UPDATE ledger SET state = 'settled', provider = ?3, input = ?4, cached = ?5, cache_written = ?6,
                 output = ?7, cost = ?8, turn = (SELECT id FROM turns WHERE id = ?2),
                 session = (SELECT session FROM turns WHERE id = ?2)
             WHERE id = ?1 AND state <> 'settled'",
        )?
        .execute(params![
            row,
            turn,
            charge.provider,
            usage.input,
            usage.cached,
            usage.cache_written,
            usage.output,
            charge.price.map(|price| price.cost(usage)),
        ])?;
    Ok(settled > 0)
}

/// The reservation for a call: the most it may use.
#[derive(Clone, Debug)]
pub struct Reserved<'a> {
    pub payer: &'a Payer,
    pub provider: &'a str,
    pub turn: Option<TurnId>,
    pub usage: Usage,
    pub cost: Option<Cost>,
}

/// Books a call before it is made.
pub(crate) fn reserve(
    store: &Connection,
    reserved: &Reserved<'_>,
    now: DateTime<Utc>,
) -> rusqlite::Result<LedgerId> {
    let Payer { person, cause, job, persona, .. } = *reserved.payer;
    store
        .prepare_cached(
            "INSERT INTO ledger (state, turn, session, at, person, cause, job, provider, input, cached, output, cost,
                                 persona)
             VALUES ('reserved', ?1, (SELECT session FROM turns WHERE id = ?1), ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9,
                     ?10)",
        )?
        .execute(params![
            reserved.turn,
            Time(now),
            person,
            cause,
            job,
            reserved.provider,
            reserved.usage.input,
            reserved.usage.output,
            reserved.cost,
            persona.as_ref().map(PersonaName::as_str),
        ])?;
    Ok(LedgerId(store.last_insert_rowid()))
}

/// Takes a reservation back: the call has cost nothing.
pub(crate) fn release(store: &Connection, row: LedgerId) -> rusqlite::Result<()> {
    store
        .prepare_cached("DELETE FROM ledger WHERE id = ? AND state = 'reserved'")?
        .execute([row])
        .map(drop)
}

/// Books a reservation as spent: nobody knows what the call has cost.
pub(crate) fn book_estimated(store: &Connection, row: LedgerId) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE ledger SET state = 'estimated' WHERE id = ? AND state = 'reserved'",
        )?
        .execute([row])
        .map(drop)
}

/// Returns true if something is reserved.
pub fn has_reserved(store: &Connection) -> rusqlite::Result<bool> {
    store.prepare("SELECT 1 FROM ledger WHERE state = 'reserved'")?.exists([])
}

/// Books everything as spent that was reserved when the program ended. Returns how many calls.
pub fn book_all_estimated(store: &Connection) -> rusqlite::Result<usize> {
    store.execute("UPDATE ledger SET state = 'estimated' WHERE state = 'reserved'", [])
}

/// The cost of a job's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobSpent {
    /// Those that called a model.
    pub runs: u64,
    pub cost: Cost,
}

/// Returns what runs of a job have cost since a time.
pub fn spent_on_job(
    store: &Connection,
    job: i64,
    since: DateTime<Utc>,
) -> rusqlite::Result<JobSpent> {
    store
        .prepare_cached(
            "SELECT count(DISTINCT turn), ifnull(sum(cost), 0) FROM ledger
             WHERE at >= ? AND cause = 'job' AND job = ? AND state <> 'reserved'",
        )?
        .query_row(params![Time(since), job], |row| {
            Ok(JobSpent { runs: row.get(0)?, cost: row.get(1)? })
        })
}

/// A provider, its tokens and their cost.
pub type ProviderUsage = (String, Usage, u64);

/// The newest row of the ledger before which all calls have ended.
pub fn last_entry(store: &Connection) -> rusqlite::Result<i64> {
    store.query_row(
        "SELECT ifnull((SELECT min(id) - 1 FROM ledger WHERE state = 'reserved'), ifnull(max(id), 0))
         FROM ledger",
        [],
        |row| row.get(0),
    )
}

/// The newest row, and by provider the tokens and the known cost of the rows after one, in billionths of a dollar.
pub fn used_after(store: &Connection, entry: i64) -> rusqlite::Result<(i64, Vec<ProviderUsage>)> {
    let last = last_entry(store)?.max(entry);
    let mut rows = store.prepare_cached(
        "SELECT provider, sum(input), sum(cached), sum(cache_written), sum(output), ifnull(sum(cost), 0)
         FROM ledger WHERE id > ? AND id <= ? GROUP BY provider",
    )?;
    let used = rows.query_map([entry, last], |row| {
        let usage = Usage {
            input: row.get(1)?,
            cached: row.get(2)?,
            cache_written: row.get(3)?,
            output: row.get(4)?,
        };
        Ok((row.get(0)?, usage, row.get(5)?))
    })?;
    Ok((last, used.collect::<rusqlite::Result<_>>()?))
}

/// Tokens that a turn has used.
pub fn used_in(store: &Connection, turn: TurnId) -> rusqlite::Result<Usage> {
    store
        .prepare_cached(
            "SELECT ifnull(sum(input), 0), ifnull(sum(cached), 0), ifnull(sum(cache_written), 0),
                 ifnull(sum(output), 0) FROM ledger WHERE turn = ?",
        )?
        .query_row([turn], |row| {
            Ok(Usage {
                input: row.get(0)?,
                cached: row.get(1)?,
                cache_written: row.get(2)?,
                output: row.get(3)?,
            })
        })
}

/// The tokens of each completion of a turn, the oldest first, with the cost in billionths of a dollar if it is known.
pub fn each_in(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<(Usage, Option<u64>)>> {
    let mut rows = store.prepare_cached(
        "SELECT input, cached, cache_written, output, cost FROM ledger
         WHERE turn = ? AND state = 'settled' ORDER BY id",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let (input, cached) = (row.get(0)?, row.get(1)?);
        let usage = Usage { input, cached, cache_written: row.get(2)?, output: row.get(3)? };
        Ok((usage, row.get(4)?))
    };
    rows.query_map([turn], read)?.collect()
}

/// Tokens that background tasks of a kind have used within some time, read and written.
pub fn used_by_tasks(
    store: &Connection,
    kind: TaskKind,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
) -> rusqlite::Result<u64> {
    store
        .prepare_cached(
            "SELECT ifnull(sum(input + output), 0) FROM ledger WHERE at BETWEEN ? AND ? AND cause = ?",
        )?
        .query_row(params![Time(since), Time(until), CallCause::Task(kind)], |row| row.get(0))
}

/// Moves the usage of one person to another.
pub fn change_person(store: &Connection, from: PersonId, to: PersonId) -> rusqlite::Result<()> {
    store.execute("UPDATE ledger SET person = ? WHERE person = ?", [to, from]).map(drop)
}

/// Forgets what was used before a time, a slice at a time; returns how many rows.
pub fn prune_usage(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    sums::prune(store, before)?;
    store
        .prepare_cached(
            "DELETE FROM ledger WHERE id IN (SELECT id FROM ledger WHERE at < ? ORDER BY at LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}

/// The tokens of the last prompt of a session as its provider counted them; none if nobody did, or if something was
/// compacted since: what a summary cost stands on a turn that the model sees no more, and is the newest row then.
pub fn counted_last(store: &Connection, session: SessionId) -> rusqlite::Result<Option<u64>> {
    let newest: Option<(u64, bool)> = store
        .prepare_cached(
            "SELECT l.input, t.id >= s.begins FROM ledger l JOIN turns t ON t.id = l.turn
             JOIN sessions s ON s.id = t.session WHERE s.id = ? AND l.state = 'settled' ORDER BY l.id DESC LIMIT 1",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(newest.filter(|(input, is_seen)| *input > 0 && *is_seen).map(|(input, _)| input))
}

/// The 30 days that `/usage` and `/status` look back.
pub const LOOKS_BACK: Duration = Duration::days(30);
