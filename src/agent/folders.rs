//! The task that carries out the orders for folders of persons, also those that a crash has interrupted. A folder that
//! cannot be moved does not stop the others, and is tried again.

use std::io;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::memory::{attachments, recall};
use crate::people::folders::{self, FolderAct, FolderOrder};
use crate::people::{People, persons};
use crate::services::Services;
use crate::store::{StoreError, Sync};
use crate::types::person::FolderOwner;
use crate::workspace::persons::FolderHeir;
use crate::workspace::{FileScope, Workspace};

/// Pause before a folder is tried again that could not be moved or deleted.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Carries out orders until `stop`.
pub async fn run(services: Services, stop: CancellationToken) {
    let mut ordered = services.bus.folders.watch();
    while !stop.is_cancelled() {
        ordered.mark_unchanged();
        let all_done = carry_out_all(&services).await.unwrap_or_else(|error| {
            tracing::error!(%error, "Cannot read what is to be done with folders, will try again");
            false
        });
        tokio::select! {
            () = stop.cancelled() => {}
            changed = ordered.changed() => if changed.is_err() { break },
            () = sleep(RETRY_PAUSE), if !all_done => {}
        }
    }
}

/// Carries out all orders. Returns false if some of them failed.
async fn carry_out_all(services: &Services) -> Result<bool, StoreError> {
    let store = &services.bus.store;
    let mut all_done = true;
    for order in store.read(folders::orders).await? {
        match services.workspace.run_blocking(move |workspace| carry_out(workspace, order)).await {
            Ok(()) => {
                attachments::follow(store, &services.workspace, order.person, heir(order)).await?;
                attachments::sweep(store, &services.workspace).await?;
                // The index must drop the moved files.
                let scope = FileScope::of_person(&FolderOwner::Person(order.person));
                all_done &= recall::files::refresh(store, &services.workspace, &scope).await?;
                let forget = move |store: &Connection| folders::forget(store, order);
                store.write("folders followed", Sync::Later, forget).await?;
                tracing::info!(person = %order.person, act = ?order.act, "Moved the folders of a person");
            }
            Err(error) => {
                all_done = false;
                tracing::error!(person = %order.person, act = ?order.act, %error, "Cannot change the folders of a person, will try again");
            }
        }
    }
    Ok(all_done)
}

/// Returns the new owner of the files. None if they are archived or deleted.
fn heir(order: FolderOrder) -> Option<FolderHeir> {
    match order.act {
        FolderAct::Join(None) => Some(FolderHeir::Owner),
        FolderAct::Join(Some(heir)) => Some(FolderHeir::Person(heir)),
        FolderAct::Archive | FolderAct::Purge => None,
    }
}

fn carry_out(
    workspace: &Workspace,
    FolderOrder { person, act, .. }: FolderOrder,
) -> io::Result<()> {
    match act {
        FolderAct::Join(None) => workspace.join_folders(person, FolderHeir::Owner),
        FolderAct::Join(Some(heir)) => workspace.join_folders(person, FolderHeir::Person(heir)),
        FolderAct::Archive => workspace.archive_folders(person),
        FolderAct::Purge => workspace.purge_folders(person),
    }
}

/// Gives the folders that former versions named after accounts to the persons of these accounts. An account that was
/// admitted by such a version becomes a person.
pub async fn adopt(
    store: &crate::store::Store,
    people: &People,
    workspace: &Workspace,
) -> anyhow::Result<()> {
    if !workspace.has_folders_of_accounts() {
        return Ok(());
    }
    let people = people.clone();
    let accounts = move |store: &Connection| {
        people.record_known_accounts(store, chrono::Utc::now())?;
        persons::accounts(store)
    };
    let accounts = store.write("persons of folders", Sync::Later, accounts).await?;
    let adopt = move |workspace: &Workspace| {
        for account in accounts {
            let adopted = workspace.adopt_folder(&account.channel, &account.sender, account.person);
            match adopted {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(person = %account.person, "A folder has the name of its person now")
                }
                Err(error) => {
                    tracing::error!(person = %account.person, %error, "Cannot rename the folder of a person, will try again at the next start")
                }
            }
        }
    };
    workspace.run_blocking(adopt).await;
    Ok(())
}
