//! Listings for scripts, as JSON: from the daemon that runs, or from the store where none does.

use chrono::Utc;
use chrono_tz::Tz;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::conversation::ledger;
use crate::people;
use crate::tasks::schedule::{self, Whose};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    /// Who waits to be let in, and who was.
    Pairings,
    Jobs,
    /// Tokens of today and of 30 days.
    Usage,
}

/// Reads a listing; `zone` says when today began.
pub fn read(store: &Connection, what: Listing, zone: Tz) -> rusqlite::Result<Value> {
    let now = Utc::now();
    Ok(match what {
        Listing::Pairings => {
            json!({ "pending": people::pending(store, now)?, "paired": people::paired(store)? })
        }
        Listing::Jobs => schedule::listing(store, &Whose::All, zone)?.into(),
        Listing::Usage => json!(ledger::used(store, schedule::midnight(now, zone))?),
    })
}
