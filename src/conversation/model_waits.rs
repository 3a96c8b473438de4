//! Turns that wait for a model that cannot be reached: each row of `turns` says since when, until when, and for
//! which chain of providers. The agent loop decides when one of them tries again.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::store::Json;
use crate::types::message::Address;
use crate::types::session::TurnId;

/// The wait of a turn for a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelWait {
    /// The name of the provider that answers first there; its fallbacks belong to the chain.
    pub chain: String,
    /// The last failure.
    pub reason: String,
    pub since: DateTime<Utc>,
    /// The turn ends with an explanation if the model cannot be reached after this time.
    pub until: DateTime<Utc>,
    /// Failures since the wait began, the first one included.
    pub failures: u32,
}

impl ModelWait {
    /// Returns the wait after another failure. It keeps its times, unless the clock was set back since, or was
    /// wrong when it began: `plausible_since` is a time that no right clock is before.
    pub fn renewed(
        &self,
        reason: &str,
        now: DateTime<Utc>,
        plausible_since: DateTime<Utc>,
    ) -> Self {
        let mut wait = Self { reason: reason.to_owned(), ..self.clone() };
        wait.failures = wait.failures.saturating_add(1);
        let was_wrong = self.since < plausible_since && now >= plausible_since;
        if self.since > now || was_wrong {
            (wait.since, wait.until) = (now, now + (self.until - self.since));
        }
        wait
    }

    /// Returns true if the time of the wait is over.
    pub fn is_over(&self, now: DateTime<Utc>) -> bool {
        now >= self.until
    }
}

/// The turns that wait for a model, as people are shown them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingTurns {
    pub turns: usize,
    /// When the first of them began to wait.
    pub since: DateTime<Utc>,
}

/// Suspends a turn until the model is back. This was no failed attempt at the turn.
pub(crate) fn suspend(store: &Connection, turn: TurnId, wait: &ModelWait) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE turns SET parked = 1, attempts = 0, model_wait = ? WHERE id = ?")?
        .execute(params![Json(wait), turn])?;
    Ok(())
}

/// The model has answered the turn.
pub(crate) fn end(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE turns SET model_wait = NULL WHERE id = ? AND model_wait IS NOT NULL",
        )?
        .execute([turn])?;
    Ok(())
}

/// Notes that people at an address are told that a turn waits. Returns false if they were told of this turn, or
/// of another one that still waits.
pub(crate) fn note_reported_wait(
    store: &Connection,
    turn: TurnId,
    at: &Address,
) -> rusqlite::Result<bool> {
    let told = store
        .prepare_cached(
            "SELECT 1 FROM turns WHERE id = ?1 AND wait_told = ?2
             UNION ALL SELECT 1 FROM turns
             WHERE model_wait IS NOT NULL AND ending IS NULL AND wait_told = ?2",
        )?
        .exists(params![turn, Json(at)])?;
    store
        .prepare_cached("UPDATE turns SET wait_told = ? WHERE id = ?")?
        .execute(params![Json(at), turn])?;
    Ok(!told)
}

/// The chains for which turns other than this one wait.
pub(crate) fn chains_away(store: &Connection, turn: TurnId) -> rusqlite::Result<BTreeSet<String>> {
    let mut rows = store.prepare_cached(
        "SELECT DISTINCT iif(json_valid(model_wait), json_extract(model_wait, '$.chain'), '') FROM turns
         WHERE model_wait IS NOT NULL AND ending IS NULL AND id <> ?",
    )?;
    rows.query_map([turn], |row| Ok(row.get::<_, Option<String>>(0)?.unwrap_or_default()))?
        .collect()
}

/// The turns that wait for a model now; none if no turn does.
pub fn waiting(store: &Connection) -> rusqlite::Result<Option<WaitingTurns>> {
    let mut rows = store.prepare_cached(
        "SELECT model_wait FROM turns WHERE model_wait IS NOT NULL AND ending IS NULL",
    )?;
    let waits = rows.query_map([], |row| row.get::<_, String>(0))?;
    let mut found: Option<WaitingTurns> = None;
    for wait in waits {
        let Ok(ModelWait { since, .. }) = serde_json::from_str(&wait?) else { continue };
        let before = found.unwrap_or(WaitingTurns { turns: 0, since });
        found = Some(WaitingTurns { turns: before.turns + 1, since: before.since.min(since) });
    }
    Ok(found)
}
