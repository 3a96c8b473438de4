//! Listings for scripts, as JSON: from the running daemon, or from the store if none runs.

use chrono::{DateTime, Duration, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::conversation::ledger::USAGE_PERIOD;
use crate::conversation::ledger::breakdown::{UsageBy, UsageSum, usage_by, usage_since};
use crate::conversation::ledger::sums::{LedgerFilter, spent_since};
use crate::memory::facts;
use crate::memory::recall::RecallKey;
use crate::people::listing::{self, ListedPerson};
use crate::people::{self as access, People, Role};
use crate::provider::prices;
use crate::replies::HeartbeatShown;
use crate::tasks::schedule::{self, JobId, JobScope};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    /// The pending pairings, and the paired people.
    Pairings,
    Jobs,
    /// One job in full; null if there is none.
    Job {
        id: JobId,
    },
    /// The last runs of a job; null if there is no such job.
    JobRuns {
        id: JobId,
    },
    /// Persons with their accounts, roles and usage.
    People,
    /// The facts about the owner. Facts about other persons are private to them.
    Facts,
    /// Usage and costs of models in the last `days`, grouped by `by`. Without `by`: by provider, today and in
    /// 30 days.
    Usage {
        by: Option<UsageBy>,
        days: u32,
    },
}

/// Reads a listing as JSON. `zone` decides when today began.
pub fn read(
    store: &Connection,
    people: &People,
    what: Listing,
    zone: Tz,
) -> rusqlite::Result<Value> {
    let now = Utc::now();
    Ok(match what {
        Listing::Pairings => {
            json!({ "pending": access::pending(store, now)?, "paired": access::paired(store)? })
        }
        Listing::People => {
            let since = now - USAGE_PERIOD;
            let with_usage = |person: ListedPerson| {
                let spent = spent_since(store, LedgerFilter::Person(person.id), since)?;
                Ok(json!({ "person": person, "last_30_days": spent }))
            };
            let listed = listing::list(store, people, None)?;
            listed.into_iter().map(with_usage).collect::<rusqlite::Result<Vec<_>>>()?.into()
        }
        Listing::Facts => {
            let owners = listing::list(store, people, None)?;
            let owners = owners.iter().filter(|person| person.role == Some(Role::Owner));
            let accounts = owners.flat_map(|person| &person.accounts);
            let keys = accounts.map(|it| RecallKey::current_of_account(store, &it.channel, &it.id));
            let keys: Vec<_> = keys.collect::<rusqlite::Result<_>>()?;
            let known = facts::list(store, &keys)?;
            known.iter().map(|fact| fact.listing(zone)).collect::<Vec<_>>().into()
        }
        Listing::Jobs => schedule::listing(store, &JobScope::All, zone)?.into(),
        Listing::Job { id } => schedule::job_listing(store, &JobScope::All, id, zone)?,
        Listing::JobRuns { id } => schedule::runs_listing(store, &JobScope::All, id)?,
        Listing::Usage { by: None, .. } => by_provider(store, now, zone)?,
        Listing::Usage { by: Some(by), days } => {
            let since = now - Duration::days(days.into());
            let today = usage_since(store, schedule::midnight(now, zone))?;
            let sums = usage_by(store, by, since, zone)?;
            let prices = prices::table_origin();
            json!({ "by": by, "days": days, "prices": prices, "today": today, "sums": sums })
        }
    })
}

/// Returns the state of the heartbeat. Times are in words.
pub fn heartbeat(shown: HeartbeatShown) -> Value {
    let last = shown
        .last
        .map(|(began, ended, words)| json!({ "began": began, "ended": ended, "words": words }));
    let counts: Map<String, Value> =
        shown.counts.into_iter().map(|(outcome, count)| (outcome, count.into())).collect();
    let (tokens_today, tokens_max) = shown.tokens;
    json!({
        "every_minutes": shown.every_minutes, "quiet": shown.quiet, "off": shown.off, "next": shown.next,
        "file_asks": shown.asks, "has_somebody": shown.has_somebody, "last": last, "last_day": counts,
        "tokens_today": tokens_today, "tokens_max": tokens_max,
    })
}

/// Returns each provider's usage, today and in 30 days, largest first.
fn by_provider(store: &Connection, now: DateTime<Utc>, zone: Tz) -> rusqlite::Result<Value> {
    let midnight = schedule::midnight(now, zone);
    let today = usage_by(store, UsageBy::Provider, midnight, zone)?;
    let sums = usage_by(store, UsageBy::Provider, now - USAGE_PERIOD, zone)?;
    let with_today = |sum: UsageSum| {
        let today = today.iter().find(|today| today.name == sum.name).cloned().unwrap_or_default();
        json!({
            "provider": sum.name, "today": today.usage, "days_30": sum.usage,
            "cost_today": today.cost, "cost_days_30": sum.cost,
        })
    };
    Ok(sums.into_iter().map(with_today).collect())
}
