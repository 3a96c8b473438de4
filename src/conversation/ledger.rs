//! What models have cost: tokens by provider, for `/usage` and the command line.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use crate::provider::Usage;
use crate::replies;
use crate::store::{Time, slice};
use crate::types::origin::TaskKind;
use crate::types::session::SessionId;

/// The tokens of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Used {
    pub provider: String,
    pub today: Usage,
    pub days_30: Usage,
}

/// Tokens since midnight, by the owner's clock, and in the last 30 days; who used most first.
pub fn used(store: &Connection, midnight: DateTime<Utc>) -> rusqlite::Result<Vec<Used>> {
    let month_ago = Utc::now() - Duration::days(30);
    let mut rows = store.prepare_cached(
        "SELECT provider,
         ifnull(sum(input) FILTER (WHERE at >= ?1), 0), ifnull(sum(cached) FILTER (WHERE at >= ?1), 0),
         ifnull(sum(output) FILTER (WHERE at >= ?1), 0), sum(input), sum(cached), sum(output)
         FROM ledger WHERE at >= ?2 GROUP BY provider ORDER BY sum(input) + sum(output) DESC",
    )?;
    let times = [Time(midnight), Time(month_ago)];
    rows.query_map(times, |row| {
        let usage = |first: usize| -> rusqlite::Result<Usage> {
            let (input, cached) = (row.get(first)?, row.get(first + 1)?);
            Ok(Usage { input, cached, output: row.get(first + 2)? })
        };
        Ok(Used { provider: row.get(0)?, today: usage(1)?, days_30: usage(4)? })
    })?
    .collect()
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
            "SELECT ifnull(sum(l.input + l.output), 0) FROM ledger l JOIN turns t ON t.id = l.turn
             JOIN sessions s ON s.id = t.session WHERE l.at BETWEEN ? AND ? AND s.kind = ?",
        )?
        .query_row(params![Time(since), Time(until), kind], |row| row.get(0))
}

/// The same in words.
pub fn usage_words(store: &Connection, midnight: DateTime<Utc>) -> rusqlite::Result<String> {
    let used = used(store, midnight)?;
    let tokens = |usage: &Usage| replies::Tokens {
        read: usage.input,
        cached: usage.cached,
        written: usage.output,
    };
    let lines =
        used.iter().map(|used| (&*used.provider, tokens(&used.today), tokens(&used.days_30)));
    Ok(replies::usage(&lines.collect::<Vec<_>>()))
}

/// Forgets what was used before a time, a slice at a time; returns how many rows.
pub fn prune_usage(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
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
             JOIN sessions s ON s.id = t.session WHERE s.id = ? ORDER BY l.id DESC LIMIT 1",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(newest.filter(|(input, is_seen)| *input > 0 && *is_seen).map(|(input, _)| input))
}
