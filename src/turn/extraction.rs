//! The worker that notices facts in conversations; the daemon has one. It reads a conversation once it has been quiet
//! for a while, one conversation at a time, and yields to everybody who waits for the same provider.

mod ask;
mod reading;
pub mod record;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::Connection;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::conversation::ended_turns;
use crate::memory::extraction::due::{self, ReadingPlan, ReadingPriority};
use crate::memory::extraction::{self, ReadMarks};
use crate::store::{StoreError, Sync};
use crate::turn::services::TurnServices;
use crate::types::session::SessionId;
use reading::Outcome;

/// Pause after each pass, so that many turns cause at most one pass a second.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Pause after a failure of the store.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Pause of a conversation whose reading was cancelled, or whose model is away. It doubles each time.
const REST_MIN: TimeDelta = TimeDelta::minutes(1);
const REST_MAX: TimeDelta = TimeDelta::hours(1);

/// Pause between readings that do not yield to people, so that a backlog does not slow everybody down.
const FORCED_PAUSE: TimeDelta = TimeDelta::minutes(2);

/// Number of turns by which the floor rises before it is stored. Until then each start reads their rows again.
const FLOOR_STEP: i64 = 200;

/// Reads conversations for facts until `stop`.
pub async fn run(turns: Arc<TurnServices>, stop: CancellationToken) {
    // The watch changes whenever a turn begins or ends.
    let mut in_use = turns.models.all.in_use.watch();
    let mut worker = Worker { turns, rests: BTreeMap::new(), forces_at: DateTime::UNIX_EPOCH };
    while !stop.is_cancelled() {
        in_use.mark_unchanged();
        let Some(result) = stop.run_until_cancelled(Box::pin(worker.pass())).await else { return };
        let next = result.unwrap_or_else(|error| {
            tracing::warn!(%error, "Cannot read conversations for facts, will try again");
            Some(FAILURE_PAUSE)
        });
        tokio::select! {
            () = stop.cancelled() => return,
            _ = in_use.changed() => {}
            () = sleep(next.unwrap_or_default()), if next.is_some() => {}
        }
        stop.run_until_cancelled(sleep(LOOK_PAUSE)).await;
    }
}

struct Worker {
    turns: Arc<TurnServices>,
    /// Conversations that pause.
    rests: BTreeMap<SessionId, Rest>,
    /// The earliest time of the next reading that does not yield to people.
    forces_at: DateTime<Utc>,
}

/// The pause of a conversation.
#[derive(Clone, Copy)]
struct Rest {
    until: DateTime<Utc>,
    length: TimeDelta,
}

impl Worker {
    /// Reads all due conversations. Returns the time until the next one is due, if it is known.
    async fn pass(&mut self) -> Result<Option<Duration>, StoreError> {
        loop {
            let now = Utc::now();
            let (marks, plan) = self.read_plan(now).await?;
            self.rests.retain(|session, _| plan.due.iter().any(|talk| talk.session == *session));
            let mut next = plan.next;
            let mut has_read = false;
            for talk in &plan.due {
                if let Some(rest) = self.rests.get(&talk.session).filter(|rest| rest.until > now) {
                    next = Some(next.map_or(rest.until, |next| next.min(rest.until)));
                    continue;
                }
                let priority = match self.forces_at > now {
                    true => ReadingPriority::Interruptible,
                    false => talk.priority(now),
                };
                match Box::pin(reading::read(&self.turns, talk, marks.forgets, priority)).await? {
                    Outcome::Read => {
                        self.rests.remove(&talk.session);
                        if priority > ReadingPriority::Interruptible {
                            self.forces_at = Utc::now() + FORCED_PAUSE;
                        }
                        has_read = true;
                        break;
                    }
                    // The end of the other use of the provider wakes this worker.
                    Outcome::InUse => {
                        let until = talk.next_priority_change(now).unwrap_or(self.forces_at);
                        let until = until.max(self.forces_at);
                        next = Some(next.map_or(until, |next| next.min(until)));
                    }
                    Outcome::Later => {
                        let until = self.rest(talk.session, now);
                        next = Some(next.map_or(until, |next| next.min(until)));
                    }
                }
            }
            if !has_read {
                return Ok(next.map(|next| (next - now).to_std().unwrap_or_default()));
            }
        }
    }

    /// Returns the conversations that are due, and raises the stored floor if necessary.
    async fn read_plan(&self, now: DateTime<Utc>) -> Result<(ReadMarks, ReadingPlan), StoreError> {
        let store = &self.turns.services.bus.store;
        loop {
            let query = move |store: &Connection| {
                let marks = extraction::marks(store)?;
                let turns = ended_turns::turns_above(store, marks.floor)?;
                Ok((due::plan(&turns, &marks, now), marks, turns.len()))
            };
            let (plan, marks, count) = store.read(query).await?;
            if plan.floor.0 - marks.floor.0 >= FLOOR_STEP {
                let floor = plan.floor;
                let raise = move |store: &Connection| extraction::raise_floor(store, floor);
                store.write("facts floor", Sync::Later, raise).await?;
                // There may be more turns than one query returns.
                if count >= ended_turns::TURNS_READ_MAX {
                    continue;
                }
            }
            return Ok((marks, plan));
        }
    }

    /// Pauses a conversation, twice as long each time. Returns the end of the pause.
    fn rest(&mut self, session: SessionId, now: DateTime<Utc>) -> DateTime<Utc> {
        let former = self.rests.get(&session).map(|rest| rest.length);
        let length = former.map_or(REST_MIN, |length| (length * 2).min(REST_MAX));
        let until = now + length;
        self.rests.insert(session, Rest { until, length });
        until
    }
}
