//! Sums over the ledger: the usage of a part of it since a time, and the running sums of budgets.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::CallCause;
use crate::provider::prices::Cost;
use crate::store::Time;
use crate::types::person::PersonId;
use crate::types::persona::PersonaName;
use crate::types::words::words;

/// The part of the ledger that counts for a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerFilter {
    All,
    Cause(CallCause),
    Job(i64),
    Person(PersonId),
    Persona(PersonaName),
}

impl LedgerFilter {
    /// Returns the key of its running sums. The triggers of the schema use the same keys.
    fn key(self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Cause(cause) => format!("cause {}", cause.as_str()),
            Self::Job(job) => format!("job {job}"),
            Self::Person(person) => format!("person {}", person.0),
            Self::Persona(name) => format!("persona {name}"),
        }
    }
}

/// The period of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    Day,
    Month,
}

words!(Period { Day = "day", Month = "month" });

/// Used tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Tokens read and written.
    pub tokens: u64,
    pub cost: Cost,
    /// The part of the tokens that is reserved for running calls.
    pub reserved: u64,
}

impl Spent {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { tokens: row.get(0)?, cost: row.get(1)?, reserved: row.get(2)? })
    }
}

/// Returns the amount spent since a time, including reservations.
pub fn spent_since(
    store: &Connection,
    part: LedgerFilter,
    since: DateTime<Utc>,
) -> rusqlite::Result<Spent> {
    const SUM: &str = "SELECT ifnull(sum(input + output), 0), ifnull(sum(cost), 0),
        ifnull(sum(input + output) FILTER (WHERE state = 'reserved'), 0) FROM ledger WHERE at >= ?";
    let since = Time(since);
    match part {
        LedgerFilter::All => store.prepare_cached(SUM)?.query_row(params![since], Spent::read),
        LedgerFilter::Cause(cause) => store
            .prepare_cached(&format!("{SUM} AND cause = ?"))?
            .query_row(params![since, cause], Spent::read),
        LedgerFilter::Job(job) => store
            .prepare_cached(&format!("{SUM} AND cause = 'job' AND job = ?"))?
            .query_row(params![since, job], Spent::read),
        LedgerFilter::Person(person) => store
            .prepare_cached(&format!("{SUM} AND person = ?"))?
            .query_row(params![since, person], Spent::read),
        LedgerFilter::Persona(name) => store
            .prepare_cached(&format!("{SUM} AND persona = ?"))?
            .query_row(params![since, name.as_str()], Spent::read),
    }
}

/// The beginning of the present day or month of a part of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct SumSince {
    pub part: LedgerFilter,
    pub period: Period,
    pub since: DateTime<Utc>,
}

impl SumSince {
    /// Returns the result of [`spent_since`], from the running sum if there is one.
    pub fn spent(self, store: &Connection) -> rusqlite::Result<Spent> {
        self.running_sum(store)?.map_or_else(|| spent_since(store, self.part, self.since), Ok)
    }

    /// Returns the result of [`spent_since`], and stores a running sum in place of that of the previous period. Triggers of
    /// the schema keep it up to date.
    pub fn keep(self, store: &Connection) -> rusqlite::Result<Spent> {
        if let Some(spent) = self.running_sum(store)? {
            return Ok(spent);
        }
        let Self { part, period, since } = self;
        let spent = spent_since(store, part, since)?;
        store
            .prepare_cached(
                "INSERT OR REPLACE INTO ledger_sums (part, period, since, tokens, cost, reserved)
                 VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                part.key(),
                period.as_str(),
                Time(since),
                spent.tokens,
                spent.cost,
                spent.reserved,
            ])?;
        Ok(spent)
    }

    fn running_sum(self, store: &Connection) -> rusqlite::Result<Option<Spent>> {
        store
            .prepare_cached(
                "SELECT tokens, cost, reserved FROM ledger_sums WHERE part = ? AND period = ? AND since = ?",
            )?
            .query_row(
                params![self.part.key(), self.period.as_str(), Time(self.since)],
                Spent::read,
            )
            .optional()
    }
}

/// Deletes the sums of periods that began before a time.
pub(super) fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<()> {
    store.execute("DELETE FROM ledger_sums WHERE since < ?", [Time(before)]).map(drop)
}
