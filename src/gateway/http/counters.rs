//! Counters since the start, from the events of turns and deliveries and from the ledger.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::conversation::ledger;
use crate::provider::Usage;
use crate::services::Services;
use crate::types::event::{Event, EventKind};
use crate::types::session::TurnId;

/// Upper bounds of a histogram of turns, in seconds.
pub(super) const TURN_SECONDS: [f64; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0];

/// Turns whose start is remembered. A suspended one may last for days.
const TURNS_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Counters(
    // Locked only briefly: by the task that counts, and by a request for the metrics.
    Mutex<Counted>,
);

/// The counts.
#[derive(Clone, Default)]
pub(super) struct Counted {
    begun: BTreeMap<TurnId, Instant>,
    /// Ended turns by their last event: `answered`, `silent` or `failed`.
    pub(super) turns: BTreeMap<&'static str, u64>,
    /// Turns by [`TURN_SECONDS`]; the last place has the longer ones.
    pub(super) turn_buckets: [u64; TURN_SECONDS.len() + 1],
    pub(super) turn_seconds: f64,
    pub(super) steps: u64,
    /// Tool calls by tool, and those that failed.
    pub(super) calls: BTreeMap<String, (u64, u64)>,
    /// Events of deliveries: `sent`, `retried` or `lost`.
    pub(super) deliveries: BTreeMap<&'static str, u64>,
    pub(super) errors: u64,
    pub(super) tokens: BTreeMap<String, Usage>,
    /// By provider, in billionths of a dollar.
    pub(super) costs: BTreeMap<String, u64>,
    /// The last row of the ledger that was counted. None before the first look.
    ledger: Option<i64>,
}

impl Counters {
    /// Counts until there are no more events.
    pub(super) fn follow(
        self: &Arc<Self>,
        services: &Services,
    ) -> impl Future<Output = ()> + use<> {
        let (counters, mut events) = (Arc::clone(self), services.events.subscribe());
        let store = services.bus.store.clone();
        async move {
            match store.read(ledger::last_entry).await {
                Ok(last) => counters.with(|counted| counted.ledger = Some(last)),
                Err(error) => tracing::warn!(%error, "Cannot read the ledger for the metrics"),
            }
            while let Some(event) = events.next().await {
                counters.with(|counted| counted.note(&event));
            }
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Counted) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the counts, with the tokens up to now.
    pub(super) async fn read(&self, services: &Services) -> Counted {
        if let Some(last) = self.with(|counted| counted.ledger) {
            let used = move |store: &_| ledger::used_after(store, last);
            if let Ok((newest, used)) = services.bus.store.read(used).await {
                self.with(|counted| counted.add_tokens(last, newest, used));
            }
        }
        self.with(|counted| counted.clone())
    }
}

impl Counted {
    fn note(&mut self, event: &Event) {
        match &event.what {
            EventKind::TurnStart { .. } => {
                if let Some(turn) = event.turn {
                    self.begun.entry(turn).or_insert_with(Instant::now);
                }
                if self.begun.len() > TURNS_MAX {
                    self.begun.pop_first();
                }
            }
            EventKind::StepStart { .. } => self.steps += 1,
            EventKind::ToolEnd { tool, failed, .. } => {
                let (all, failures) = self.calls.entry(tool.clone()).or_default();
                *all += 1;
                *failures += u64::from(*failed);
            }
            EventKind::TurnEnd { silent } => {
                let how = if *silent { "silent" } else { "answered" };
                *self.turns.entry(how).or_default() += 1;
                let begun = event.turn.and_then(|turn| self.begun.remove(&turn));
                if let Some(begun) = begun {
                    self.note_duration(begun.elapsed());
                }
            }
            EventKind::Error { .. } => self.errors += 1,
            EventKind::Delivered { .. } => *self.deliveries.entry("sent").or_default() += 1,
            EventKind::DeliveryLate { .. } => *self.deliveries.entry("retried").or_default() += 1,
            EventKind::DeliveryFailed { .. } => *self.deliveries.entry("lost").or_default() += 1,
            _ => {}
        }
    }

    fn note_duration(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        let bucket = TURN_SECONDS.iter().position(|most| took <= *most);
        self.turn_buckets[bucket.unwrap_or(TURN_SECONDS.len())] += 1;
        self.turn_seconds += took;
    }

    fn add_tokens(&mut self, from: i64, newest: i64, used: Vec<ledger::ProviderUsage>) {
        // Another request may have counted them.
        if self.ledger != Some(from) {
            return;
        }
        self.ledger = Some(newest);
        for (provider, usage, cost) in used {
            *self.costs.entry(provider.clone()).or_default() += cost;
            let sum = self.tokens.entry(provider).or_default();
            sum.input += usage.input;
            sum.cached += usage.cached;
            sum.output += usage.output;
        }
    }
}
