//! Background work on the memory. After a start, completes the index with turns that are older than it, and
//! with files that were changed while no daemon ran. Does so in slices, so that other changes come in between.
//! Later, extracts facts from conversations.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::tasks::respawn;
use crate::conversation::history;
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
        let services = self.services.clone();
        running.spawn(respawn("the index of the memory", until.clone(), move |stop| {
            run(services.clone(), stop)
        }));
        if self.plan.agent.memory.extract {
            let turns = Arc::clone(&self.turns);
            running.spawn(respawn("the facts", until.clone(), move |stop| {
                extraction::run(Arc::clone(&turns), stop)
            }));
        }
    }
}

/// Completes the index, and waits for `stop`.
async fn run(services: Services, stop: CancellationToken) {
    let retries = async {
        while let Err(error) = complete(&services).await {
            tracing::warn!(%error, "Cannot complete the index of the memory, will try again");
            sleep(FAILURE_PAUSE).await;
        }
    };
    stop.run_until_cancelled(retries).await;
    stop.cancelled().await;
}

async fn complete(services: &Services) -> Result<(), StoreError> {
    let store = &services.bus.store;
    while store.read(|store| Ok(recall::backfill_below(store)?.is_some())).await? {
        store.write("recall backfill", Sync::Later, history::backfill).await?;
        sleep(SLICE_PAUSE).await;
    }
    while !files::refresh(store, &services.workspace, &FileScope::Owner).await? {
        sleep(SLICE_PAUSE).await;
    }
    Ok(())
}
