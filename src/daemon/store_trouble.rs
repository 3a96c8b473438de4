//! Tells the owner that the store is full or fails. The message goes past the outbox, which is in the store.

use std::collections::HashMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::tasks::respawn;
use crate::channels::direct;
use crate::people;
use crate::replies;
use crate::services::Services;
use crate::store::{FreeSpace, StoreTrouble};

/// Pause before another attempt, if the owner could not be told.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Minimum interval between two messages about the same trouble, which may come and go.
const TELL_EVERY: Duration = Duration::from_secs(3600);

impl Daemon {
    /// Starts to watch the store.
    pub(super) fn watch_store(&self, until: &CancellationToken, running: &mut JoinSet<()>) {
        let services = self.services.clone();
        running.spawn(respawn("the watch over the store", until.clone(), move |stop| {
            let services = services.clone();
            async move {
                stop.run_until_cancelled(tell_of_troubles(&services)).await;
            }
        }));
    }
}

/// The troubles that the owner has heard of.
#[derive(Default)]
struct ToldTroubles(HashMap<StoreTrouble, ToldTrouble>);

struct ToldTrouble {
    at: Instant,
    goes_on: bool,
}

impl ToldTroubles {
    fn note(&mut self, trouble: StoreTrouble) {
        self.0.insert(trouble, ToldTrouble { at: Instant::now(), goes_on: true });
    }

    fn note_end(&mut self) {
        self.0.values_mut().for_each(|told| told.goes_on = false);
    }

    /// Returns true if the owner need not hear of it now.
    fn knows(&self, trouble: StoreTrouble) -> bool {
        let told = self.0.get(&trouble);
        told.is_some_and(|told| told.goes_on || told.at.elapsed() < TELL_EVERY)
    }
}

/// Tells the owner of each trouble once until it is over.
async fn tell_of_troubles(services: &Services) {
    let store = &services.bus.store;
    let mut troubles = store.watch_trouble();
    let mut told = ToldTroubles::default();
    if store.free_space() == FreeSpace::Ballast {
        // The start has told of it.
        told.note(StoreTrouble::Full);
    }
    loop {
        let present = *troubles.borrow_and_update();
        let mut is_to_be_told = false;
        match present {
            None => told.note_end(),
            Some(trouble) if told.knows(trouble) => {}
            Some(trouble) => match tell_owner(services, trouble).await {
                true => told.note(trouble),
                false => is_to_be_told = true,
            },
        }
        match is_to_be_told {
            true => drop(timeout(RETRY_AFTER, troubles.changed()).await),
            false => troubles.changed().await.expect("the services have the sender"),
        }
    }
}

/// Tells the owner of a trouble. Returns false if that fails, or if nobody is known as the owner.
async fn tell_owner(services: &Services, trouble: StoreTrouble) -> bool {
    let words = match trouble {
        StoreTrouble::Full => replies::DISK_HAS_NO_SPACE,
        StoreTrouble::Failing => replies::DISK_FAILS,
        StoreTrouble::Damaged => replies::DATABASE_DAMAGED,
    };
    let Ok(Some(owner)) = services.bus.store.read(people::owner_address).await else {
        return false;
    };
    let Some(channel) = services.channels.get(&owner.channel) else { return false };
    direct::send(channel.as_ref(), owner, words).await
}
