//! Sums of the ledger by person, model, provider, day, job or cause.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::{Connection, Row};
use serde::Serialize;

use super::USAGE_PERIOD;
use crate::people::persons;
use crate::provider::Usage;
use crate::provider::prices::{self, Cost};
use crate::replies;
use crate::store::Time;
use crate::types::person::PersonId;
use crate::types::words::words;

/// The grouping of a sum over the ledger.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    #[default]
    Provider,
    Model,
    Person,
    Persona,
    Day,
    Job,
    Cause,
}

words!(UsageBy {
    Provider = "provider",
    Model = "model",
    Person = "person",
    Persona = "persona",
    Day = "day",
    Job = "job",
    Cause = "cause",
});

/// A sum of model calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageSum {
    pub name: String,
    pub calls: u64,
    #[serde(flatten)]
    pub usage: Usage,
    pub cost: Cost,
    /// The number of calls whose price is unknown.
    pub unpriced: u64,
    /// The number of calls whose result was lost. They count with their maximum usage.
    pub estimated: u64,
}

impl UsageSum {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.usage.add(other.usage);
        self.cost = self.cost.plus(other.cost);
        self.unpriced += other.unpriced;
        self.estimated += other.estimated;
    }
}

const SUMS: &str = "count(*), ifnull(sum(input), 0), ifnull(sum(cached), 0), ifnull(sum(cache_written), 0), \
    ifnull(sum(output), 0), ifnull(sum(cost), 0), count(*) - count(cost), count(*) FILTER (WHERE state = 'estimated')";

/// A quarter of an hour, in milliseconds. The offsets of all present time zones are multiples of it.
const QUARTER_MS: i64 = 15 * 60 * 1_000;

/// Reads the columns of [`SUMS`], which begin after the name.
fn read(row: &Row<'_>) -> rusqlite::Result<UsageSum> {
    Ok(UsageSum {
        name: String::new(),
        calls: row.get(1)?,
        usage: Usage {
            input: row.get(2)?,
            cached: row.get(3)?,
            cache_written: row.get(4)?,
            output: row.get(5)?,
        },
        cost: row.get(6)?,
        unpriced: row.get(7)?,
        estimated: row.get(8)?,
    })
}

/// Returns sums of the calls that have ended since a time. Days are in their order, all others by tokens, most first.
pub fn usage_by(
    store: &Connection,
    by: UsageBy,
    since: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<Vec<UsageSum>> {
    let column = match by {
        UsageBy::Provider | UsageBy::Model => "provider",
        UsageBy::Person => "person",
        UsageBy::Persona => "persona",
        UsageBy::Day => "at / 900000",
        UsageBy::Job => "job",
        UsageBy::Cause => "cause",
    };
    let only = if by == UsageBy::Job { "AND job IS NOT NULL" } else { "" };
    let mut rows = store.prepare_cached(&format!(
        "SELECT {column}, {SUMS} FROM ledger WHERE at >= ? AND state <> 'reserved' {only} GROUP BY 1"
    ))?;
    let mut sums: BTreeMap<String, UsageSum> = BTreeMap::new();
    let mut rows = rows.query([Time(since)])?;
    while let Some(row) = rows.next()? {
        let name = match by {
            UsageBy::Provider | UsageBy::Cause => row.get(0)?,
            UsageBy::Model => model_of(&row.get::<_, String>(0)?).to_owned(),
            UsageBy::Person => person_name(store, row.get(0)?)?,
            UsageBy::Day => {
                let at = DateTime::from_timestamp_millis(row.get::<_, i64>(0)? * QUARTER_MS);
                at.unwrap_or_default().with_timezone(&zone).format("%Y-%m-%d").to_string()
            }
            UsageBy::Persona => {
                row.get::<_, Option<String>>(0)?.unwrap_or_else(|| "(none)".to_owned())
            }
            UsageBy::Job => format!("#{}", row.get::<_, i64>(0)?),
        };
        sums.entry(name).or_default().add(&read(row)?);
    }
    let mut sums: Vec<_> = sums.into_iter().map(|(name, sum)| UsageSum { name, ..sum }).collect();
    if by != UsageBy::Day {
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.usage.input + sum.usage.output));
    }
    Ok(sums)
}

/// Returns the sum of all calls that have ended since a time.
pub fn usage_since(store: &Connection, since: DateTime<Utc>) -> rusqlite::Result<UsageSum> {
    store
        .prepare_cached(&format!(
            "SELECT NULL, {SUMS} FROM ledger WHERE at >= ? AND state <> 'reserved'"
        ))?
        .query_row([Time(since)], read)
}

/// Returns the answer to `/usage`: the usage since `midnight`, and of the last 30 days.
pub fn describe_usage(
    store: &Connection,
    midnight: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<String> {
    let since = Utc::now() - USAGE_PERIOD;
    let providers = usage_by(store, UsageBy::Provider, since, zone)?;
    let card = replies::UsageCard {
        today: shown(&usage_since(store, midnight)?),
        month: shown(&usage_since(store, since)?),
        providers: providers.iter().map(|sum| (sum.name.clone(), shown(sum))).collect(),
        prices: prices::table_origin(),
    };
    Ok(replies::usage(&card))
}

fn shown(sum: &UsageSum) -> replies::UsageShown {
    replies::UsageShown {
        calls: sum.calls,
        read: sum.usage.input,
        cached: sum.usage.cached,
        written: sum.usage.output,
        cost: sum.cost.to_string(),
        unpriced: sum.unpriced,
    }
}

/// Returns the model in a provider's label: `qwen3:8b` in `main (qwen3:8b)`.
fn model_of(provider: &str) -> &str {
    let model = provider.split_once(" (").and_then(|(_, model)| model.strip_suffix(')'));
    model.unwrap_or(provider)
}

fn person_name(store: &Connection, person: Option<PersonId>) -> rusqlite::Result<String> {
    let Some(person) = person else { return Ok("(nobody)".to_owned()) };
    let name = persons::name_of_person(store, person)?.unwrap_or_default();
    Ok(format!("{person} {name}").trim_end().to_owned())
}
