//! What a channel's link tells its deliveries: after an outage none waits for its own pause, and a delivery that
//! fails while the platform is heard does not wait for others to arrive.

use super::{Deliverer, DeliveryQueue};
use crate::bus::outbox;
use crate::channels::supervise::BACKOFF_MAX;
use crate::store::Sync;

impl DeliveryQueue {
    /// Has what failed while the link was down be tried at once, if it has come up since: `before` is how often it
    /// had, `ups` how often it has. Returns how often that was heeded.
    pub(super) async fn hasten_after_outage(&self, ups: u64, before: u64) -> u64 {
        if ups == before {
            return before;
        }
        let name = self.name.clone();
        let least = self.channel.limits().doubt_pause;
        let hasten = move |store: &_| outbox::hasten_after_outage(store, &name, least, BACKOFF_MAX);
        if let Err(error) = self.bus.store.write("link is up", Sync::Later, hasten).await {
            tracing::warn!(channel = %self.name, %error, "Deliveries wait for their pauses");
        }
        ups
    }
}

impl Deliverer<'_> {
    /// Returns true if the platform was heard since this delivery last failed, by the link.
    pub(super) fn link_is_heard(&self) -> bool {
        let link = self.queue.link.state();
        let failed = self.delivery.failures.map(|failures| failures.last);
        link.up && failed.is_some_and(|failed| link.last_byte.is_some_and(|heard| heard > failed))
    }

    /// How often this delivery has failed while the platform was heard, with this time.
    pub(super) fn fails_while_heard(&self, is_heard: bool) -> u32 {
        self.queue.arrivals.note_failure_of(self.delivery.message.id, is_heard)
    }
}
