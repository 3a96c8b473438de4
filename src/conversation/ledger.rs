//! The ledger of model calls: each with its person, cause, tokens and cost.

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

/// The cause of a model call.
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
    /// The extraction of facts from conversations.
    Memory,
    /// A background task.
    #[serde(untagged)]
    Task(TaskKind),
}

impl CallCause {
    /// The causes other than background tasks.
    const OWN: [Self; 5] = [Self::Chat, Self::Aside, Self::Compaction, Self::Notes, Self::Memory];

    /// Returns the cause's name, which the ledger stores. A task has the name of its kind.
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
        let own_cause = Self::OWN.into_iter().find(|cause| cause.as_str() == word);
        own_cause.or_else(|| TaskKind::parse(word).map(Self::Task))
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

/// The account and the cause of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payer {
    /// None for the program's own work, and for rows of former versions.
    pub person: Option<PersonId>,
    pub role: Role,
    pub cause: CallCause,
    /// The number of the job that the call works for.
    pub job: Option<i64>,
    /// The persona of the config under which it is called.
    pub persona: Option<PersonaName>,
}

/// The id of a row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerId(pub i64);

integer_columns!(LedgerId);

/// A model call that has ended, or several calls in one entry.
#[derive(Clone, Debug)]
pub struct Charge {
    pub payer: Payer,
    pub provider: String,
    pub usage: Usage,
    /// Usage of aborted attempts before this one.
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

/// Enters the cost of a model call, for a turn or, if that was deleted meanwhile, for none. Ends its reservation.
pub(crate) fn add_charge(
    store: &Connection,
    turn: TurnId,
    charge: &Charge,
) -> rusqlite::Result<()> {
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

/// Enters the cost like [`add_charge`], but skips calls that have used nothing.
pub(crate) fn add_nonzero_charge(
    store: &Connection,
    turn: TurnId,
    charge: &Charge,
) -> rusqlite::Result<()> {
    match (charge.is_empty(), charge.reserved) {
        (false, _) => add_charge(store, turn, charge),
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

/// Replaces a reservation by the real usage. Returns false if the reservation no longer exists.
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

/// A reservation: the maximum usage of a call.
#[derive(Clone, Debug)]
pub struct Reserved<'a> {
    pub payer: &'a Payer,
    pub provider: &'a str,
    pub turn: Option<TurnId>,
    pub usage: Usage,
    pub cost: Option<Cost>,
}

/// Enters a reservation before a call is made.
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

/// Deletes a reservation, because the call has cost nothing.
pub(crate) fn release(store: &Connection, row: LedgerId) -> rusqlite::Result<()> {
    store
        .prepare_cached("DELETE FROM ledger WHERE id = ? AND state = 'reserved'")?
        .execute([row])
        .map(drop)
}

/// Marks a reservation as spent, because the real cost of the call is unknown.
pub(crate) fn book_estimated(store: &Connection, row: LedgerId) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE ledger SET state = 'estimated' WHERE id = ? AND state = 'reserved'",
        )?
        .execute([row])
        .map(drop)
}

/// Returns true if there is a reservation.
pub fn has_reserved(store: &Connection) -> rusqlite::Result<bool> {
    store.prepare("SELECT 1 FROM ledger WHERE state = 'reserved'")?.exists([])
}

/// Marks all reservations that were open when the program ended as spent. Returns their number.
pub fn book_all_estimated(store: &Connection) -> rusqlite::Result<usize> {
    store.execute("UPDATE ledger SET state = 'estimated' WHERE state = 'reserved'", [])
}

/// The cost of a job's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobSpent {
    /// Number of runs that called a model.
    pub runs: u64,
    pub cost: Cost,
}

/// Returns the cost of a job's runs since a time.
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

/// A provider, its tokens, and their cost in billionths of a dollar.
pub type ProviderUsage = (String, Usage, u64);

/// Returns the newest row of the ledger up to which all calls have ended.
pub fn last_entry(store: &Connection) -> rusqlite::Result<i64> {
    store.query_row(
        "SELECT ifnull((SELECT min(id) - 1 FROM ledger WHERE state = 'reserved'), ifnull(max(id), 0))
         FROM ledger",
        [],
        |row| row.get(0),
    )
}

/// Returns the newest row, and the tokens and the known cost of the rows after `entry` by provider, in billionths of a
/// dollar.
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

/// Returns the tokens that a turn has used.
pub fn turn_usage(store: &Connection, turn: TurnId) -> rusqlite::Result<Usage> {
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

/// Returns the tokens of each completion of a turn, oldest first, with the cost in billionths of a dollar if it is known.
pub fn usage_by_completion(
    store: &Connection,
    turn: TurnId,
) -> rusqlite::Result<Vec<(Usage, Option<u64>)>> {
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

/// Returns the tokens, read and written, that background tasks of a kind have used in a period.
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

/// Transfers the usage of one person to another.
pub fn change_person(store: &Connection, from: PersonId, to: PersonId) -> rusqlite::Result<()> {
    store.execute("UPDATE ledger SET person = ? WHERE person = ?", [to, from]).map(drop)
}

/// Deletes a slice of the usage before a time. Returns the number of rows.
pub fn prune_usage(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    sums::prune(store, before)?;
    store
        .prepare_cached(
            "DELETE FROM ledger WHERE id IN (SELECT id FROM ledger WHERE at < ? ORDER BY at LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}

/// Returns the tokens of a session's last prompt, counted by the provider. None if it was not counted, or if there was a
/// compaction since: then the newest row is the cost of the summary, which belongs to a turn that the model no longer
/// sees.
pub fn last_prompt_tokens(store: &Connection, session: SessionId) -> rusqlite::Result<Option<u64>> {
    let newest: Option<(u64, bool)> = store
        .prepare_cached(
            "SELECT l.input, t.id >= s.begins FROM ledger l JOIN turns t ON t.id = l.turn
             JOIN sessions s ON s.id = t.session WHERE s.id = ? AND l.state = 'settled' ORDER BY l.id DESC LIMIT 1",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(newest.filter(|(input, is_seen)| *input > 0 && *is_seen).map(|(input, _)| input))
}

/// The period that `/usage` and `/status` report: 30 days.
pub const USAGE_PERIOD: Duration = Duration::days(30);
