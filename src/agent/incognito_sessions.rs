//! Erases incognito conversations that have ended: their texts and received files, and then the free pages of the
//! database, which hold former versions of rows.

use std::time::Duration;

use rusqlite::Connection;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::forget::rewrite;
use crate::conversation::incognito;
use crate::memory::attachments;
use crate::services::Services;
use crate::store::{StoreError, Sync};

/// Pause while a conversation cannot be erased, because one of its messages is not delivered yet.
const AGAIN: Duration = Duration::from_secs(30);

/// Erases closed conversations at the start, and each time one is closed, until `stop`.
pub async fn run(services: Services, stop: CancellationToken) {
    let mut closed = services.bus.closed.watch();
    while !stop.is_cancelled() {
        closed.mark_unchanged();
        let Some(erased) = stop.run_until_cancelled(erase_closed(&services)).await else { return };
        let must_retry = erased.unwrap_or_else(|error| {
            tracing::warn!(%error, "Cannot erase conversations that are over");
            true
        });
        tokio::select! {
            () = stop.cancelled() => return,
            _ = closed.changed() => {}
            () = sleep(AGAIN), if must_retry => {}
        }
    }
}

/// Erases closed conversations. Returns true if some have to wait.
async fn erase_closed(services: &Services) -> Result<bool, StoreError> {
    let store = &services.bus.store;
    loop {
        let due = store.read(incognito::due).await?;
        if due.is_empty() {
            return Ok(false);
        }
        let erase = move |store: &Connection| incognito::erase(store, &due);
        let erased = store.write_securely("incognito", erase).await?;
        if erased.is_empty() {
            return Ok(true);
        }
        attachments::sweep(store, &services.workspace).await?;
        rewrite(store).await?;
        tracing::info!(erased = erased.len(), "Erased incognito conversations");
        let note = move |store: &Connection| incognito::note_erased(store, &erased);
        store.write("incognito erased", Sync::Later, note).await?;
        // The rewritten pages take the place of the former ones in the file.
        store.checkpoint().await;
    }
}
