//! Work that ends once its person has lost a role, such as a command. Not here: turns, which are ended in the store.

use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Bus, Notifier};
use crate::people::persons::PersonAccount;
use crate::people::{People, Role};
use crate::store::{Store, StoreError};

/// Pause before the role is read again after an error of the store.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// Watches the role of an account from the moment when it was made. Cheap to clone.
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

    /// Waits until a change of people's access has left the account with less than this role. It had the role when the
    /// watch was made.
    pub async fn lost(mut self, least: Role) {
        while self.changed.changed().await.is_ok() {
            if !self.has(least).await {
                return;
            }
        }
        // The daemon ends, and all work with it.
        std::future::pending().await
    }

    async fn has(&self, least: Role) -> bool {
        loop {
            match self.role().await {
                Ok(role) => return role.is_some_and(|role| role >= least),
                Err(error) => {
                    tracing::error!(%error, "Cannot read the role of a command's person, will try again");
                    sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    async fn role(&self) -> Result<Option<Role>, StoreError> {
        let (people, PersonAccount { channel, sender }) =
            (self.people.clone(), self.account.clone());
        let role = move |store: &Connection| people.role_of(store, &channel, &sender);
        self.store.read(role).await
    }
}
