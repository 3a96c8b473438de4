//! Work that ends once its person has lost the access with which it began, such as a command. Not here: turns, which are ended in the store.

use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Bus, Notifier};
use crate::people::folders::folder_owner;
use crate::people::persons::PersonAccount;
use crate::people::{People, Role};
use crate::store::{Store, StoreError};
use crate::types::person::FolderOwner;

/// Pause before the role is read again after an error of the store.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// The access with which work began.
#[derive(Clone, Debug)]
pub struct HeldAccess {
    pub role: Role,
    /// The owner of the folder that it sees. None if that is not a person's own.
    pub folder: Option<FolderOwner>,
}

/// Watches the access of an account from the moment when it was made. Cheap to clone.
#[derive(Clone)]
pub struct AccessWatch {
    store: Store,
    people: People,
    account: PersonAccount,
    changed: watch::Receiver<()>,
}

impl AccessWatch {
    /// `changed` wakes whenever the access of people has changed.
    pub fn new(store: Store, people: People, account: PersonAccount, changed: &Notifier) -> Self {
        Self { store, people, account, changed: changed.watch() }
    }

    pub fn of(bus: &Bus, account: PersonAccount) -> Self {
        Self::new(bus.store.clone(), bus.people.clone(), account, &bus.access)
    }

    /// Returns true if the access of people has changed since the watch was made, or since this was last asked. A clone
    /// begins at the same moment.
    pub fn has_changed(&mut self) -> bool {
        self.changed.borrow_and_update().has_changed()
    }

    /// Waits until a change of people's access has left the account with less than this, or with another folder. It had
    /// this access when the watch was made.
    pub async fn lost(mut self, held: HeldAccess) {
        while self.changed.changed().await.is_ok() {
            if !self.has(&held).await {
                return;
            }
        }
        // The daemon ends, and all work with it.
        std::future::pending().await
    }

    async fn has(&self, held: &HeldAccess) -> bool {
        loop {
            match self.read(held.clone()).await {
                Ok(has) => return has,
                Err(error) => {
                    tracing::error!(%error, "Cannot read the access of a command's person, will try again");
                    sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    async fn read(&self, held: HeldAccess) -> Result<bool, StoreError> {
        let (people, PersonAccount { channel, sender }) =
            (self.people.clone(), self.account.clone());
        let has = move |store: &Connection| {
            let role = people.role_of(store, &channel, &sender)?;
            let has_folder = match &held.folder {
                Some(folder) => folder_owner(store, &channel, &sender)? == *folder,
                None => true,
            };
            Ok(has_folder && role.is_some_and(|role| role >= held.role))
        };
        self.store.read(has).await
    }
}
