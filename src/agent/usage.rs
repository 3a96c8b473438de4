//! What models have cost: tokens by provider, for `/usage` and the command line.

use chrono::{DateTime, Duration, Local, Utc};
use rusqlite::Connection;

use crate::provider::Usage;
use crate::replies;

/// What one provider has used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Used {
    provider: String,
    today: Usage,
    days_30: Usage,
}

/// Tokens since midnight, by the clock of the machine, and in the last 30 days; who used most first.
fn used(store: &Connection, now: DateTime<Local>) -> rusqlite::Result<Vec<Used>> {
    let midnight = now.date_naive().and_time(chrono::NaiveTime::MIN).and_local_timezone(Local);
    // Where the clock skips midnight, the day began an hour later.
    let midnight = midnight.earliest().unwrap_or(now);
    let month_ago = now.with_timezone(&Utc) - Duration::days(30);
    let mut rows = store.prepare_cached(
        "SELECT provider,
         ifnull(sum(input) FILTER (WHERE at >= ?1), 0), ifnull(sum(cached) FILTER (WHERE at >= ?1), 0),
         ifnull(sum(output) FILTER (WHERE at >= ?1), 0), sum(input), sum(cached), sum(output)
         FROM ledger WHERE at >= ?2 GROUP BY provider ORDER BY sum(input) + sum(output) DESC",
    )?;
    let times = [midnight.timestamp_millis(), month_ago.timestamp_millis()];
    rows.query_map(times, |row| {
        let usage = |first: usize| -> rusqlite::Result<Usage> {
            let (input, cached) = (row.get(first)?, row.get(first + 1)?);
            Ok(Usage { input, cached, output: row.get(first + 2)? })
        };
        Ok(Used { provider: row.get(0)?, today: usage(1)?, days_30: usage(4)? })
    })?
    .collect()
}

/// The same in words.
pub fn usage_words(store: &Connection) -> rusqlite::Result<String> {
    let used = used(store, Local::now())?;
    let tokens = |usage: &Usage| replies::Tokens {
        read: usage.input,
        cached: usage.cached,
        written: usage.output,
    };
    let lines =
        used.iter().map(|used| (&*used.provider, tokens(&used.today), tokens(&used.days_30)));
    Ok(replies::usage(&lines.collect::<Vec<_>>()))
}
