//! Turns that wait for a model: one turn of each provider chain tries first, with pauses that grow while the
//! model is away. Once it has an answer, the others follow. No timer runs while no turn waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::agent::work_queue;
use crate::conversation::model_waits::ModelWait;
use crate::conversation::transcript::UnfinishedTurn;
use crate::store::ChangedRow;
use crate::turn::suspension;
use crate::types::session::TurnId;

/// The pause before the first attempt; each further one is twice as long. A model that restarts is back soon.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause between attempts: one attempt a minute costs little, and delays an answer by a minute at most.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A turn is given up only if its model was tried within this time before, because the machine may have slept.
const TRIED_WITHIN: chrono::Duration = chrono::Duration::minutes(2);

/// The turns that wait for a model, by chain of providers.
#[derive(Default)]
pub(super) struct SuspendedTurns {
    pub(super) chains: HashMap<String, Chain>,
    /// The chain of each turn that waits or tries again.
    pub(super) chain_of: HashMap<TurnId, String>,
}

/// The state of one provider chain and the turns that wait for it.
pub(super) struct Chain {
    /// Suspended turns, the oldest first.
    pub(super) waiting: BTreeMap<TurnId, Suspended>,
    /// Turns that have begun to ask the model again.
    pub(super) trying: BTreeSet<TurnId>,
    /// The suspended turn that goes first.
    pub(super) first: Option<TurnId>,
    /// Number of failed attempts in a row.
    pub(super) failures: u32,
    /// The time of the next attempt.
    pub(super) next: Instant,
    /// The time at which the model was last found to be away.
    pub(super) failed: Option<DateTime<Utc>>,
    /// The model has answered since, and all turns may go on.
    pub(super) is_back: bool,
    /// True if `is_back` has changed since the loop last released turns.
    pub(super) is_news: bool,
}

/// A suspended turn.
#[derive(Clone)]
pub(super) struct Suspended {
    pub(super) turn: UnfinishedTurn,
    pub(super) wait: ModelWait,
}

impl Chain {
    /// Creates the state of a chain. `failed` is the time of a failure just now; none after a restart.
    fn new(failed: Option<DateTime<Utc>>) -> Self {
        let pause = failed.map_or(Duration::ZERO, |_| PAUSE);
        Self {
            waiting: BTreeMap::new(),
            trying: BTreeSet::new(),
            first: None,
            failures: 0,
            next: Instant::now() + pause,
            failed,
            is_back: false,
            is_news: false,
        }
    }

    pub(super) fn has_failed(&mut self) {
        self.failures += 1;
        self.next = Instant::now() + pause(self.failures);
        (self.first, self.failed) = (None, Some(Utc::now()));
        self.is_news |= std::mem::take(&mut self.is_back);
    }

    fn has_answered(&mut self) {
        self.failures = 0;
        self.is_news |= !std::mem::replace(&mut self.is_back, true);
    }

    /// Returns true if an attempt has just shown that the model is still away.
    fn was_tried(&self, now: DateTime<Utc>) -> bool {
        self.failed.is_some_and(|failed| failed <= now && now - failed <= TRIED_WITHIN)
    }

    /// Returns true if nothing happens before the next attempt.
    fn rests(&self) -> bool {
        self.first.is_none() && self.trying.is_empty() && !self.is_back && !self.waiting.is_empty()
    }

    /// Returns the turn that tries first, if an attempt is due, and the turns whose maximum wait is over.
    pub(super) fn choose(
        &mut self,
        now: Instant,
        clock: DateTime<Utc>,
    ) -> (Option<TurnId>, Vec<Suspended>) {
        if !self.rests() {
            return (None, Vec::new());
        }
        let has_expired = |it: &&Suspended| it.wait.is_over(clock);
        let expired: Vec<_> = self.waiting.values().filter(has_expired).cloned().collect();
        if !expired.is_empty() && self.was_tried(clock) {
            return (None, expired);
        }
        if self.next <= now || !expired.is_empty() {
            self.first = self.waiting.keys().next().copied();
        }
        (self.first, Vec::new())
    }
}

/// Returns the pause after this number of failures in a row.
fn pause(failures: u32) -> Duration {
    PAUSE.saturating_mul(1 << failures.min(16)).min(PAUSE_MAX)
}

impl SuspendedTurns {
    /// Updates the state from the changed turns. Without `changed`, `found` has all waiting turns.
    pub(super) fn update<'a>(
        &mut self,
        changed: Option<&BTreeSet<ChangedRow>>,
        found: impl Iterator<Item = &'a UnfinishedTurn>,
        stopped: &BTreeSet<TurnId>,
    ) {
        let is_relevant = |it: &&UnfinishedTurn| it.model_wait.is_some() || self.knows(it.turn);
        let found: BTreeMap<_, _> = found.filter(is_relevant).map(|it| (it.turn, it)).collect();
        let ended: Vec<TurnId> = match changed {
            Some(changed) => {
                let turns = changed.iter().filter(|(table, _)| *table == work_queue::TURNS);
                turns
                    .map(|(_, row)| TurnId(*row))
                    .filter(|turn| !found.contains_key(turn))
                    .collect()
            }
            None => {
                self.chain_of.keys().filter(|turn| !found.contains_key(turn)).copied().collect()
            }
        };
        for turn in ended {
            self.has_ended(turn, stopped.contains(&turn));
        }
        for turn in found.into_values() {
            match &turn.model_wait {
                Some(wait) => self.note(turn, wait, changed.is_some()),
                // The model has answered this turn.
                None => self.has_ended(turn.turn, false),
            }
        }
        self.chains.retain(|_, chain| !chain.waiting.is_empty() || !chain.trying.is_empty());
    }

    fn knows(&self, turn: TurnId) -> bool {
        self.chain_of.contains_key(&turn)
    }

    fn note(&mut self, unfinished: &UnfinishedTurn, wait: &ModelWait, is_news: bool) {
        let turn = unfinished.turn;
        let before = self.chain_of.insert(turn, wait.chain.clone());
        if let Some(before) = before.filter(|before| *before != wait.chain)
            && let Some(before) = self.chains.get_mut(&before)
        {
            before.waiting.remove(&turn);
            before.trying.remove(&turn);
            before.first.take_if(|first| *first == turn);
        }
        let failed = is_news.then(Utc::now);
        let chain = self.chains.entry(wait.chain.clone()).or_insert_with(|| Chain::new(failed));
        if !unfinished.suspended {
            chain.waiting.remove(&turn);
            chain.first.take_if(|first| *first == turn);
            chain.trying.insert(turn);
            return;
        }
        let known = chain.waiting.get(&turn).map(|it| it.wait.failures);
        let has_tried = chain.trying.remove(&turn) || known.is_some_and(|it| it != wait.failures);
        if has_tried || chain.is_back {
            chain.has_failed();
        }
        chain.failed = failed.or(chain.failed);
        let suspended = Suspended { turn: unfinished.clone(), wait: wait.clone() };
        chain.waiting.insert(turn, suspended);
    }

    /// Notes that a turn no longer waits.
    fn has_ended(&mut self, turn: TurnId, is_stopped: bool) {
        let chain = self.chain_of.remove(&turn).and_then(|name| self.chains.get_mut(&name));
        let Some(chain) = chain else { return };
        chain.waiting.remove(&turn);
        let was_first = chain.first.take_if(|first| *first == turn).is_some();
        if (chain.trying.remove(&turn) || was_first) && !is_stopped {
            // The model answered or refused; the other turns find out by their own attempts.
            chain.has_answered();
        }
    }

    /// Returns the time until a turn tries again, or is given up.
    pub(super) fn next(&self) -> Option<Duration> {
        let (now, clock) = (Instant::now(), Utc::now());
        let time_left = |chain: &Chain| {
            let ends = chain.waiting.values().map(|it| it.wait.until).min();
            let end = ends.map(|end| (end - clock).to_std().unwrap_or_default());
            let pause = chain.next.saturating_duration_since(now);
            end.map_or(pause, |end| end.min(pause)).max(suspension::EXPIRY_PAUSE_MIN)
        };
        self.chains.values().filter(|chain| chain.rests()).map(time_left).min()
    }
}
