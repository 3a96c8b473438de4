//! Tells the owner that the store is full or fails. The message goes past the outbox, which is in the store.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::tasks::respawn;
use crate::channels::direct::{self, DirectOutcome};
use crate::people;
use crate::replies;
use crate::services::Services;
use crate::store::StoreTrouble;

/// Minimum interval between two messages about the same trouble, which may come and go.
const TELL_EVERY: Duration = Duration::from_secs(3600);

impl Daemon {
    /// Starts to watch the store.
    pub(super) fn watch_store(&self, until: &CancellationToken, running: &mut JoinSet<()>) {
        let services = self.services.clone();
        let begun = self.full_disk_noticed.then_some(StoreTrouble::Full);
        running.spawn(respawn("the watch over the store", until.clone(), move |stop| {
            let services = services.clone();
            async move {
                stop.run_until_cancelled(tell_of_troubles(&services, begun)).await;
            }
        }));
    }
}

/// The troubles that the owner was told of, or could not be told of.
#[derive(Default)]
struct ToldTroubles(HashMap<StoreTrouble, ToldTrouble>);

struct ToldTrouble {
    at: Instant,
    /// The time of the next message. None if the owner knows it, and it has not ended since.
    next: Option<Instant>,
}

impl ToldTroubles {
    fn note(&mut self, trouble: StoreTrouble, outcome: DirectOutcome) {
        let at = Instant::now();
        self.0.insert(trouble, ToldTrouble { at, next: outcome.pause().map(|pause| at + pause) });
    }

    fn note_end(&mut self) {
        for told in self.0.values_mut() {
            told.next.get_or_insert(told.at + TELL_EVERY);
        }
    }

    /// Returns the time of the next message about a trouble that goes on. None if the owner knows it.
    fn next_message(&self, trouble: StoreTrouble) -> Option<Instant> {
        self.0.get(&trouble).map_or_else(|| Some(Instant::now()), |told| told.next)
    }
}

/// Tells the owner of the troubles of a store. `noticed` is one of which the outbox has a notice.
async fn tell_of_troubles(services: &Services, noticed: Option<StoreTrouble>) {
    let troubles = services.bus.store.watch_trouble();
    follow(troubles, noticed, move |trouble| tell_owner(services, trouble)).await;
}

/// Tells of each trouble once until it is over, and at most once an hour: one that comes back sooner, and stays, is told
/// then. `noticed` is one of which the outbox has a notice: it may never leave, because a delivery needs commits. So the owner
/// is told of it in an hour if it still lasts. Ends with the store.
pub async fn follow<F: Future<Output = DirectOutcome>>(
    mut troubles: watch::Receiver<Option<StoreTrouble>>,
    noticed: Option<StoreTrouble>,
    mut tell: impl FnMut(StoreTrouble) -> F,
) {
    let mut told = ToldTroubles::default();
    if let Some(noticed) = noticed {
        told.note(noticed, DirectOutcome::Unclear);
    }
    loop {
        let present = *troubles.borrow_and_update();
        let mut next = None;
        match present {
            None => told.note_end(),
            Some(trouble) => {
                if told.next_message(trouble).is_some_and(|next| next <= Instant::now()) {
                    let outcome = tell(trouble).await;
                    told.note(trouble, outcome);
                }
                next = told.next_message(trouble);
            }
        }
        let changed = troubles.changed();
        let ended = match next {
            None => changed.await.is_err(),
            // Without a change, it goes on until then.
            Some(next) => timeout_at(next, changed).await.is_ok_and(|changed| changed.is_err()),
        };
        if ended {
            return;
        }
    }
}

/// Tells the owner of a trouble. Nothing is sent if nobody is known as the owner.
async fn tell_owner(services: &Services, trouble: StoreTrouble) -> DirectOutcome {
    let words = match trouble {
        StoreTrouble::Full => replies::DISK_HAS_NO_SPACE,
        StoreTrouble::Failing => replies::DISK_FAILS,
        StoreTrouble::Damaged => replies::DATABASE_DAMAGED,
    };
    let Ok(Some(owner)) = services.bus.store.read(people::owner_address).await else {
        return DirectOutcome::NotSent;
    };
    let Some(channel) = services.channels.get(&owner.channel) else {
        return DirectOutcome::NotSent;
    };
    direct::send(channel.as_ref(), owner, words).await
}
