//! Keeps the daemon's own tasks running, and joins them at the end. Tasks of one turn or one message are
//! not among them.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::channels::supervise::backoff;

/// A task that ran for this long restarts its back-off.
const STEADY: Duration = Duration::from_secs(60);

/// Usual maximum of a shutdown stage. It takes some milliseconds if nothing is in progress. A longer one is
/// logged with its name.
const STAGE_TIME_USUAL: Duration = Duration::from_millis(200);

/// Runs a task until `stop`. A task that panics, or ends earlier, is started again with back-off. Its
/// state is in the store.
pub async fn respawn<F: Future<Output = ()>>(
    what: &'static str,
    stop: CancellationToken,
    mut begin: impl FnMut(CancellationToken) -> F,
) {
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        let task = async { begin(stop.clone()).await };
        let has_panicked = AssertUnwindSafe(task).catch_unwind().await.is_err();
        if stop.is_cancelled() {
            return;
        }
        if begun.elapsed() > STEADY {
            failures = 0;
        }
        let pause = backoff(failures);
        failures += 1;
        tracing::error!(what, has_panicked, ?pause, "A task of the daemon failed, will restart it");
        stop.run_until_cancelled(sleep(pause)).await;
    }
}

/// Joins tasks that were asked to end. Those that do not end in time are dropped.
pub(super) async fn end(what: &'static str, mut tasks: JoinSet<()>, within: Duration) {
    let begun = Instant::now();
    let joined = async { while tasks.join_next().await.is_some() {} };
    if timeout(within, joined).await.is_err() {
        tracing::warn!(what, tasks = tasks.len(), "A stage of the shutdown did not end in time");
    }
    tasks.shutdown().await;
    let waited = begun.elapsed();
    if waited > STAGE_TIME_USUAL {
        tracing::info!(what, ?waited, "The shutdown had to wait");
    }
}
