//! Ends deliveries that do not arrive: text replaces a file, and the loss of a message is reported.

use super::{AfterChunk, Deliverer};
use crate::bus::outbox::{self, Chunk, DeliveryLoss};
use crate::channels::chunking;
use crate::store::{StoreError, Sync};
use crate::types::event::EventKind;
use crate::types::message::{Attachment, Body};

impl Deliverer<'_> {
    /// Replaces a file that cannot be sent, or is refused, by text. No text is lost with it.
    pub(super) async fn replace_file(
        &self,
        chunk: &Chunk,
        file: &Attachment,
        reason: &str,
    ) -> Result<AfterChunk, StoreError> {
        self.late(reason);
        self.queue.arrivals.forget(self.delivery.message.id);
        let bodies = chunking::replacement_for(file, reason, &self.channel.limits());
        let (id, seq) = (self.delivery.message.id, chunk.seq);
        let replace = move |store: &_| outbox::replace(store, id, seq, &bodies);
        self.store.write("no file", Sync::Later, replace).await?;
        Ok(AfterChunk::Leave)
    }

    /// Ends the attempts to send a chunk: text replaces a file, and any other message is lost.
    pub(super) async fn give_up(
        &self,
        chunk: &Chunk,
        reason: &str,
    ) -> Result<AfterChunk, StoreError> {
        match &chunk.body {
            Body::File(file) => self.replace_file(chunk, file, reason).await,
            Body::Text(_) | Body::Choice(_) | Body::Printed(_) => {
                self.dead(DeliveryLoss::GivenUp, reason).await
            }
        }
    }

    /// Marks the message as lost, and reports that.
    pub(super) async fn dead(
        &self,
        lost: DeliveryLoss,
        reason: &str,
    ) -> Result<AfterChunk, StoreError> {
        tracing::warn!(to = %self.delivery.message.to, reason, "Gave up a delivery");
        let delivery = self.delivery.message.id;
        self.queue.arrivals.forget(delivery);
        self.emit(|| EventKind::DeliveryFailed { delivery, reason: reason.to_owned() });
        let (message, reason) = (self.delivery.message.clone(), reason.to_owned());
        let dead = move |store: &_| outbox::mark_dead(store, &message, lost, &reason);
        self.store.write("dead", Sync::Later, dead).await?;
        Ok(AfterChunk::Leave)
    }

    /// Converts an answer whose draft is gone to a message of its own. It was certainly not sent before.
    pub(super) async fn forget_draft(&self, chunk: &Chunk) -> Result<AfterChunk, StoreError> {
        let (id, chunk) =
            (self.delivery.message.id, Chunk { sending_since: None, ..chunk.clone() });
        let forget = move |store: &_| {
            outbox::forget_draft(store, id)?;
            outbox::mark_not_sent(store, id, &chunk)?;
            outbox::retry_at_once(store, id, "its draft is gone")
        };
        self.store.write("draft gone", Sync::Later, forget).await?;
        Ok(AfterChunk::Leave)
    }
}
