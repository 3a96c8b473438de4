//! Quotes the question in an answer that overtakes an older one, on a platform without replies.

use super::DeliveryQueue;
use crate::bus::journal;
use crate::replies;
use crate::store::StoreError;
use crate::types::message::Outbound;

impl DeliveryQueue {
    /// Puts a line of the question above an answer that overtakes an older one, if the platform has no
    /// replies.
    pub(super) async fn quote_question(&self, message: &mut Outbound) -> Result<(), StoreError> {
        let question = message.reply_to.clone().filter(|_| message.overtakes);
        let Some(question) = question.filter(|_| !self.channel.limits().replies) else {
            return Ok(());
        };
        let at = message.to.clone();
        let load_text = move |store: &_| journal::text_of(store, &at, &question);
        if let Some(quoted) = self.bus.store.read(load_text).await? {
            let text = message.body.text_mut();
            *text = replies::quoting(&quoted, text);
        }
        Ok(())
    }
}
