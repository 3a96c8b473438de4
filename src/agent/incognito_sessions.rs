//! Erases incognito conversations that are over: their texts and the files that came in them, and then the free pages in which former versions of rows
//! are.

use std::time::Duration;

use rusqlite::Connection;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::forget::rewrite;
use crate::conversation::incognito;
use crate::memory::attachments;
use crate::services::Services;
use crate::store::{StoreError, Sync};

/// Pause while a conversation cannot be erased: one of its messages is still on its way.
const AGAIN: Duration = Duration::from_secs(30);

/// Erases conversations each time that one was closed, and at the start, until `stop`.
pub async fn run(services: Services, stop: CancellationToken) {
    let mut closed = services.bus.closed.watch();
    while !stop.is_cancelled() {
        closed.mark_unchanged();
        let Some(erased) = stop.run_until_cancelled(erase_closed(&services)).await else { return };
        let is_left = erased.unwrap_or_else(|error| {
            tracing::warn!(%error, "Cannot erase conversations that are over");
            true
        });
        tokio::select! {
            () = stop.cancelled() => return,
            _ = closed.changed() => {}
            () = sleep(AGAIN), if is_left => {}
        }
    }
}

/// Returns true if some have to wait.
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
