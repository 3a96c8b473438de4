//! Background work on the memory. After a start, completes the index with turns that are older than it, and
//! with files that were changed while no daemon ran. Does so in slices, so that other changes come in between.
//! Later, makes a broken index again, and extracts facts from conversations.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::tasks::respawn;
use crate::conversation::history;
use crate::memory::recall::progress::IndexProgress;
use crate::memory::recall::{self, files};
use crate::services::Services;
use crate::store::{StoreError, Sync};
use crate::turn::extraction;
use crate::workspace::FileScope;

/// Pause between two slices.
const SLICE_PAUSE: Duration = Duration::from_millis(20);

/// Pause after a failure of the store.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

impl Daemon {
    pub(super) fn index(&self, until: &CancellationToken, running: &mut JoinSet<()>) {
        let (services, progress) = (self.services.clone(), self.server.indexing.clone());
        running.spawn(respawn("the index of the memory", until.clone(), move |stop| {
            run(services.clone(), progress.clone(), stop)
        }));
        if self.plan.agent.memory.extract {
            let turns = Arc::clone(&self.turns);
            running.spawn(respawn("the facts", until.clone(), move |stop| {
                extraction::run(Arc::clone(&turns), stop)
            }));
        }
    }
}

/// Completes the index, and makes it again each time that it is broken, until `stop`.
async fn run(services: Services, progress: IndexProgress, stop: CancellationToken) {
    stop.run_until_cancelled(keep_complete(&services, &progress)).await;
    stop.cancelled().await;
}

async fn keep_complete(services: &Services, progress: &IndexProgress) {
    let store = &services.bus.store;
    let mut index_failures = store.watch_index();
    let (mut not_before, mut is_made_again) = (Instant::now(), false);
    loop {
        match complete(services, progress).await {
            Ok(()) => {
                if std::mem::take(&mut is_made_again) {
                    // Searches that began before may have failed meanwhile.
                    index_failures.mark_unchanged();
                }
                if index_failures.changed().await.is_err() {
                    return;
                }
            }
            Err(StoreError::Index(_)) => {}
            Err(error) => {
                tracing::warn!(%error, "Cannot complete the index of the memory, will try again");
                sleep(FAILURE_PAUSE).await;
                continue;
            }
        }
        sleep_until(not_before).await;
        not_before = Instant::now() + FAILURE_PAUSE;
        tracing::warn!("The index of the memory is broken, and is made again from what is stored");
        match store.write_securely("recall index", recall::empty_index).await {
            Ok(()) => is_made_again = true,
            Err(error) => tracing::warn!(%error, "Cannot empty the index of the memory"),
        }
    }
}

async fn complete(services: &Services, progress: &IndexProgress) -> Result<(), StoreError> {
    let store = &services.bus.store;
    if !store.read(recall::is_index_full).await? {
        let mut shown = progress.begin(store.read(recall::count_passages).await?);
        while !store.read(recall::is_index_full).await? {
            shown.add(store.write("recall index", Sync::Later, recall::refill_index).await?);
            sleep(SLICE_PAUSE).await;
        }
    }
    if let Some(count) = store.read(history::count_backfilled).await? {
        let mut shown = progress.begin(count);
        while store.read(|store| Ok(recall::backfill_below(store)?.is_some())).await? {
            shown.add(store.write("recall backfill", Sync::Later, history::backfill).await?);
            sleep(SLICE_PAUSE).await;
        }
    }
    while !files::refresh(store, &services.workspace, &FileScope::Owner).await? {
        sleep(SLICE_PAUSE).await;
    }
    Ok(())
}
