//! Turns that wait for an unreachable model. A row of `turns` has the beginning and the end of the wait, and the
//! chain of providers. Not here: the time of the next attempt, which the agent loop decides.

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
    /// The name of the chain's first provider. Its fallbacks belong to the chain.
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
    /// wrong at its beginning: a right clock never shows a time before `plausible_since`.
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

/// The turns that wait for a model, in the form for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingTurns {
    pub turns: usize,
    /// Time since which the first of them waits.
    pub since: DateTime<Utc>,
}

/// Suspends a turn until the model is back. Does not count as a failed attempt.
pub(crate) fn suspend(store: &Connection, turn: TurnId, wait: &ModelWait) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE turns SET suspended = 1, attempts = 0, model_wait = ? WHERE id = ?",
        )?
        .execute(params![Json(wait), turn])?;
    Ok(())
}

/// Ends the wait of a turn, because the model has answered.
pub(crate) fn end(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE turns SET model_wait = NULL WHERE id = ? AND model_wait IS NOT NULL",
        )?
        .execute([turn])?;
    Ok(())
}

/// Records that people at an address get a notice about a waiting turn. Returns false if they got one about this turn,
/// or about another one that still waits.
pub(crate) fn note_reported_wait(
    store: &Connection,
    turn: TurnId,
    at: &Address,
) -> rusqlite::Result<bool> {
    let is_reported = store
        .prepare_cached(
            "SELECT 1 FROM turns WHERE id = ?1 AND wait_notified = ?2
             UNION ALL SELECT 1 FROM turns
             WHERE model_wait IS NOT NULL AND ending IS NULL AND wait_notified = ?2",
        )?
        .exists(params![turn, Json(at)])?;
    store
        .prepare_cached("UPDATE turns SET wait_notified = ? WHERE id = ?")?
        .execute(params![Json(at), turn])?;
    Ok(!is_reported)
}

/// Returns the chains for which other turns than this one wait.
pub(crate) fn chains_away(store: &Connection, turn: TurnId) -> rusqlite::Result<BTreeSet<String>> {
    let mut rows = store.prepare_cached(
        "SELECT DISTINCT iif(json_valid(model_wait), json_extract(model_wait, '$.chain'), '') FROM turns
         WHERE model_wait IS NOT NULL AND ending IS NULL AND id <> ?",
    )?;
    rows.query_map([turn], |row| Ok(row.get::<_, Option<String>>(0)?.unwrap_or_default()))?
        .collect()
}

/// Returns the turns that wait for a model. None if no turn does.
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
