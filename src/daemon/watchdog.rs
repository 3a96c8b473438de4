//! The watchdog. It checks that the agent loop, the threads of the store and the deliveries make progress, and
//! reports to systemd while all of them do. Otherwise it logs the stuck part, and systemd restarts the process.
//! It does not check channels, because a platform may be away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::tasks::respawn;
use crate::bus::Bus;
use crate::channels::deliver::{ATTEMPT_TIME_MAX, DeliveryProgress};
use crate::types::message::ChannelName;

/// Number of checks within systemd's watchdog timeout, so that a check that fails under load is repeated.
const CHECKS: u32 = 3;

/// Work on the whole database, for which the other parts wait, counts as stuck after this time. It is ample
/// even for the slowest cards.
const LONG_WORK_TIME_MAX: Duration = Duration::from_secs(3600);

/// Reports progress to the supervisor that restarts the process.
#[derive(Clone)]
pub struct Watchdog {
    /// The supervisor restarts the process if it gets no report for this long.
    pub within: Duration,
    pub report: Arc<dyn Fn() + Send + Sync>,
}

/// The parts of a daemon that must make progress.
#[derive(Clone)]
pub struct WatchedParts {
    pub bus: Bus,
    pub deliveries: BTreeMap<ChannelName, DeliveryProgress>,
    /// A delivery attempt that takes longer counts as stuck.
    pub attempt_time_max: Duration,
}

impl WatchedParts {
    pub fn new(bus: Bus, deliveries: BTreeMap<ChannelName, DeliveryProgress>) -> Self {
        Self { bus, deliveries, attempt_time_max: ATTEMPT_TIME_MAX }
    }

    /// Returns the parts that make no progress within this time. A part without work makes progress, too.
    pub async fn stuck(&self, within: Duration) -> Vec<String> {
        let Self { bus, deliveries, attempt_time_max } = self;
        if bus.store.long_work_duration().is_some_and(|time| time < LONG_WORK_TIME_MAX) {
            return Vec::new();
        }
        let (writer, reader, agent) = tokio::join!(
            answers_within(within, bus.store.writer_answers()),
            answers_within(within, bus.store.reader_answers()),
            answers_within(within, async {
                bus.inbox.notify_and_await_round(&bus.rounds).await;
                true
            }),
        );
        let mut stuck = Vec::new();
        stuck.extend((!writer).then(|| "the store's writer".to_owned()));
        stuck.extend((!reader).then(|| "the store's reader".to_owned()));
        stuck.extend((!agent).then(|| "the agent loop".to_owned()));
        let checks = deliveries.iter().map(|(name, progress)| async move {
            let makes_round = answers_within(within, async {
                bus.outbox.notify_and_await_round(&progress.rounds).await;
                true
            });
            let is_hanging = progress.oldest_attempt().is_some_and(|age| age > *attempt_time_max);
            (is_hanging || !makes_round.await).then(|| format!("the deliveries of {name}"))
        });
        stuck.extend(join_all(checks).await.into_iter().flatten());
        stuck
    }
}

/// Returns the answer, or false if it takes longer.
async fn answers_within(within: Duration, answer: impl Future<Output = bool>) -> bool {
    timeout(within, answer).await.unwrap_or(false)
}

impl Daemon {
    /// Returns the parts that must make progress while this runs.
    pub fn watched_parts(&self) -> WatchedParts {
        WatchedParts::new(self.services.bus.clone(), self.deliveries.clone())
    }

    /// Starts to watch the store, and the watchdog, if the supervisor expects its reports.
    pub(super) fn watch(&self, until: &CancellationToken, running: &mut JoinSet<()>) {
        self.watch_store(until, running);
        let Some(watchdog) = self.plan.supervision.watchdog.clone() else { return };
        let parts = self.watched_parts();
        running.spawn(respawn("the watchdog", until.clone(), move |stop| {
            run(watchdog.clone(), parts.clone(), stop)
        }));
    }
}

/// Reports until `stop` while all parts make progress.
pub async fn run(watchdog: Watchdog, parts: WatchedParts, stop: CancellationToken) {
    let every = watchdog.within / CHECKS;
    let mut was_stuck = false;
    let report_loop = async {
        loop {
            let stuck = parts.stuck(every).await;
            if stuck.is_empty() {
                (watchdog.report)();
                if was_stuck {
                    tracing::warn!("All parts of the daemon make progress again");
                }
            } else {
                let names = stuck.join(", ");
                tracing::error!(parts = names, within = ?every, "Parts of the daemon make no progress");
            }
            was_stuck = !stuck.is_empty();
            // The check of a stuck part may have taken the whole interval already.
            sleep(if was_stuck { every / CHECKS } else { every }).await;
        }
    };
    stop.run_until_cancelled(report_loop).await;
}
