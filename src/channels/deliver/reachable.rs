//! Uses the state of a channel's link for its deliveries. After an outage they are retried at once. A
//! delivery that fails while the platform is reachable does not wait for others to arrive.

use super::{Deliverer, DeliveryQueue};
use crate::bus::outbox;
use crate::channels::supervise::BACKOFF_MAX;
use crate::store::Sync;

impl DeliveryQueue {
    /// Retries at once the deliveries that failed while the link was down, if it has come up since. `connects` counts
    /// how often it has come up, and `before` is the count of the last call. Returns the count for the next call,
    /// which repeats a failed write.
    pub(super) async fn retry_after_outage(&self, connects: u64, before: u64) -> u64 {
        if connects == before {
            return before;
        }
        let name = self.name.clone();
        let least = self.channel.limits().ambiguity_pause;
        let hasten = move |store: &_| outbox::retry_after_outage(store, &name, least, BACKOFF_MAX);
        if let Err(error) = self.bus.store.write("link is up", Sync::Later, hasten).await {
            tracing::warn!(channel = %self.name, %error, "Cannot retry deliveries early, they wait for their pauses");
            return before;
        }
        connects
    }
}

impl Deliverer<'_> {
    /// Returns true if the link received something since this delivery last failed.
    pub(super) fn has_link_received(&self) -> bool {
        let link = self.queue.link.state();
        let failed = self.delivery.failures.map(|failures| failures.last);
        link.up
            && failed.is_some_and(|failed| link.last_byte.is_some_and(|received| received > failed))
    }

    /// Records a failure. Returns how often this delivery has failed while the platform was reachable.
    pub(super) fn note_failure(&self, is_reachable: bool) -> u32 {
        self.queue.arrivals.note_failure_of(self.delivery.message.id, is_reachable)
    }
}
