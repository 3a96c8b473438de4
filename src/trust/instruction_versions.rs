//! Stores the last good version of each instruction file, so that it is also in force after a restart, and
//! notifies the owner once when a file cannot be read. Owns the table `instruction_versions`.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::bus::{Notifier, outbox};
use crate::people;
use crate::replies;
use crate::store::{Store, StoreError, Sync, Time};
use crate::workspace::instructions::InstructionVersion;
use crate::workspace::{Workspace, WorkspacePath};

/// Pause before the next attempt when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// Reads the versions that a former process has stored. Skips rows whose name is not a valid path any more.
pub async fn load(store: &Store) -> Result<Vec<(WorkspacePath, InstructionVersion)>, StoreError> {
    store.read(read_all).await
}

/// Stores versions as they change, until `stop`.
pub async fn run(workspace: Workspace, store: Store, outbox: Notifier, stop: CancellationToken) {
    while stop.run_until_cancelled(workspace.instructions_changed()).await.is_some() {
        while let Err(error) = save(&workspace, &store, &outbox).await {
            tracing::error!(%error, "Cannot keep the last good instructions, will try again");
            if stop.run_until_cancelled(sleep(STORE_PAUSE)).await.is_none() {
                return;
            }
        }
    }
}

/// Stores the versions that have changed. A message to the owner is part of the commit, so that it is sent once.
async fn save(workspace: &Workspace, store: &Store, outbox: &Notifier) -> Result<(), StoreError> {
    let unsaved = workspace.unsaved_instructions();
    if unsaved.is_empty() {
        return Ok(());
    }
    let rows = unsaved.clone();
    let save = move |store: &Connection| {
        let mut has_message = false;
        for (path, version) in &rows {
            has_message |= put(store, path, version.as_ref())?;
        }
        Ok(has_message)
    };
    if store.write("instructions", Sync::Later, save).await? {
        outbox.notify();
    }
    workspace.instructions_saved(&unsaved);
    Ok(())
}

fn read_all(store: &Connection) -> rusqlite::Result<Vec<(WorkspacePath, InstructionVersion)>> {
    let mut rows = store.prepare_cached("SELECT path, text, blocked FROM instruction_versions")?;
    let rows = rows.query_map([], |row| {
        let path: String = row.get(0)?;
        let version = InstructionVersion { text: row.get(1)?, blocked: row.get(2)? };
        Ok(path.parse().ok().map(|path| (path, version)))
    })?;
    rows.filter_map(rusqlite::Result::transpose).collect()
}

/// Stores one version. Returns true if the owner gets a message.
fn put(
    store: &Connection,
    path: &WorkspacePath,
    version: Option<&InstructionVersion>,
) -> rusqlite::Result<bool> {
    let Some(InstructionVersion { text, blocked }) = version else {
        store
            .prepare_cached("DELETE FROM instruction_versions WHERE path = ?")?
            .execute([path.as_str()])?;
        return Ok(false);
    };
    let was_blocked: Option<bool> = store
        .prepare_cached("SELECT blocked IS NOT NULL FROM instruction_versions WHERE path = ?")?
        .query_row([path.as_str()], |row| row.get(0))
        .optional()?;
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO instruction_versions (path, text, blocked, changed)
             VALUES (?, ?, ?, ?)",
        )?
        .execute(params![path.as_str(), text, blocked, Time::now()])?;
    // A skill that could never be read is reported with the skills.
    let is_in_use = text.is_some() || path.parent().is_none();
    let Some(reason) = blocked.as_ref().filter(|_| is_in_use && was_blocked != Some(true)) else {
        return Ok(false);
    };
    let Some(owner) = people::owner_address(store)? else { return Ok(false) };
    let message = replies::instructions_blocked(path, reason, text.is_some());
    outbox::put(store, &owner, None, &message).map(|_| true)
}
