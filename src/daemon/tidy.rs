//! Forgets what was done long ago: at the start, and once a day.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::actions::{Actions, GRACE};
use crate::agent::Means;
use crate::bus::{Bus, KEPT};
use crate::heartbeat::{self, BEATS_KEPT};
use crate::schedule;
use crate::store::{StoreError, Sync};

const TIDY_EVERY: Duration = Duration::from_secs(24 * 3600);

/// When nothing is under way yet that what is forgotten could be for.
pub(super) async fn at_start(bus: &Bus, actions: &Actions) -> Result<(), StoreError> {
    forget(bus, actions, Duration::ZERO).await
}

pub(super) async fn daily(means: Arc<Means>, stop: CancellationToken) {
    while timeout(TIDY_EVERY, stop.cancelled()).await.is_err() {
        if let Err(error) = forget(&means.bus, &means.actions, GRACE).await {
            tracing::warn!(%error, "Cannot tidy the store");
        }
    }
}

/// Blobs that nothing refers to go once they are older than `grace`.
async fn forget(bus: &Bus, actions: &Actions, grace: Duration) -> Result<(), StoreError> {
    bus.prune().await?;
    let (long_ago, beats) = (Utc::now() - KEPT, Utc::now() - BEATS_KEPT);
    let prune = move |store: &_| {
        schedule::prune(store, long_ago)?;
        heartbeat::prune(store, beats)
    };
    bus.store.write("prune", Sync::Later, prune).await?;
    actions.tidy(long_ago, grace).await
}
