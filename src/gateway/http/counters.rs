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
use crate::types::histogram::Histogram;
use crate::types::session::TurnId;

/// Upper bounds of the durations of turns and of model calls, in seconds.
const SECONDS: &[f64] = &[0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0];

/// Maximum number of turns whose start is remembered. A suspended one may last for days.
const TURNS_MAX: usize = 1_000;

/// Maximum number of tools that are counted by name. An MCP server may rename its tools again and again.
const TOOLS_MAX: usize = 500;

/// The name that stands for further tools.
const OTHER_TOOLS: &str = "other";

#[derive(Default)]
pub(super) struct Counters(
    // Locked only briefly: by the task that counts, and by a request for the metrics.
    Mutex<Counted>,
);

/// The counts.
#[derive(Clone)]
pub(super) struct Counted {
    turn_starts: BTreeMap<TurnId, Instant>,
    /// The starts of model calls in progress.
    call_starts: BTreeMap<TurnId, Instant>,
    /// Ended turns by their last event: `answered`, `silent` or `failed`.
    pub(super) turns: BTreeMap<&'static str, u64>,
    pub(super) turn_times: Histogram,
    /// Turns that were begun again after a restart.
    pub(super) resumed: u64,
    pub(super) steps: u64,
    pub(super) step_times: Histogram,
    pub(super) calls: BTreeMap<String, CountedCalls>,
    /// Events of deliveries: `sent`, `retried` or `lost`.
    pub(super) deliveries: BTreeMap<&'static str, u64>,
    pub(super) errors: u64,
    pub(super) tokens: BTreeMap<String, Usage>,
    /// By provider, in billionths of a dollar.
    pub(super) costs: BTreeMap<String, u64>,
    /// The last row of the ledger that was counted. None before the first read.
    ledger: Option<i64>,
}

/// The calls of a tool.
#[derive(Clone, Default)]
pub(super) struct CountedCalls {
    pub(super) all: u64,
    pub(super) failed: u64,
    pub(super) took: Duration,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            turn_starts: BTreeMap::new(),
            call_starts: BTreeMap::new(),
            turns: BTreeMap::new(),
            turn_times: Histogram::new(SECONDS),
            resumed: 0,
            steps: 0,
            step_times: Histogram::new(SECONDS),
            calls: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            errors: 0,
            tokens: BTreeMap::new(),
            costs: BTreeMap::new(),
            ledger: None,
        }
    }
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
            EventKind::TurnStart { attempt } => {
                self.resumed += u64::from(*attempt > 1);
                record_start(&mut self.turn_starts, event.turn);
            }
            EventKind::StepStart { .. } => {
                self.steps += 1;
                event.turn.and_then(|turn| self.call_starts.remove(&turn));
                record_start(&mut self.call_starts, event.turn);
            }
            EventKind::StepEnd { .. } => {
                let begun = event.turn.and_then(|turn| self.call_starts.remove(&turn));
                begun.into_iter().for_each(|it| self.step_times.note(it.elapsed()));
            }
            EventKind::ToolEnd { tool, failed, ms, .. } => {
                let is_known = self.calls.contains_key(tool) || self.calls.len() < TOOLS_MAX;
                let name = if is_known { tool } else { OTHER_TOOLS };
                let calls = self.calls.entry(name.to_owned()).or_default();
                calls.all += 1;
                calls.failed += u64::from(*failed);
                calls.took = calls.took.saturating_add(Duration::from_millis(*ms));
            }
            EventKind::TurnEnd { silent } => {
                let outcome = if *silent { "silent" } else { "answered" };
                *self.turns.entry(outcome).or_default() += 1;
                let begun = event.turn.and_then(|turn| self.turn_starts.remove(&turn));
                begun.into_iter().for_each(|it| self.turn_times.note(it.elapsed()));
            }
            EventKind::Error { .. } => self.errors += 1,
            EventKind::Delivered { .. } => *self.deliveries.entry("sent").or_default() += 1,
            EventKind::DeliveryLate { .. } => *self.deliveries.entry("retried").or_default() += 1,
            EventKind::DeliveryFailed { .. } => *self.deliveries.entry("lost").or_default() += 1,
            _ => {}
        }
    }

    fn add_tokens(&mut self, from: i64, newest: i64, used: Vec<ledger::ProviderUsage>) {
        // Another request may have counted them meanwhile.
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

/// Records the start of a turn or of its model call. A turn that continues after a question keeps its start.
fn record_start(starts: &mut BTreeMap<TurnId, Instant>, turn: Option<TurnId>) {
    if let Some(turn) = turn {
        starts.entry(turn).or_insert_with(Instant::now);
    }
    if starts.len() > TURNS_MAX {
        starts.pop_first();
    }
}
