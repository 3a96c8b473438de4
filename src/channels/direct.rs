//! Messages that are sent past the outbox, because the store cannot keep them. Not here: the decision who gets one.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

use super::{Channel, ChannelError};
use crate::types::message::{Address, Body, DeliveryId, Outbound};

/// Time for one message.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);

/// Pause before another message, if the platform could not be reached.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Pause before another message, if the first one may have arrived: more of them would be a nuisance.
const REPEAT_AFTER: Duration = Duration::from_secs(3600);

/// The fate of a message that was sent past the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectOutcome {
    Arrived,
    /// It may have arrived, or the platform never takes it.
    Unclear,
    /// It was certainly not sent, and may be taken later.
    NotSent,
}

impl DirectOutcome {
    /// Returns the pause before the words are sent again. None if they have arrived.
    pub fn pause(self) -> Option<Duration> {
        match self {
            Self::Arrived => None,
            Self::Unclear => Some(REPEAT_AFTER),
            Self::NotSent => Some(RETRY_AFTER),
        }
    }
}

/// Sends a text without any markup. Logs if it may not have arrived.
pub async fn send(channel: &dyn Channel, to: Address, text: &str) -> DirectOutcome {
    let message = Outbound {
        id: DeliveryId(0),
        chunk_index: 0,
        to,
        reply_to: None,
        overtakes: false,
        replaces: None,
        body: Body::Text(text.to_owned()),
    };
    let sent = AssertUnwindSafe(channel.send(&message)).catch_unwind();
    let outcome = match tokio::time::timeout(SEND_TIME_MAX, sent).await {
        Ok(Ok(Ok(_))) => return DirectOutcome::Arrived,
        Ok(Ok(Err(ChannelError::Unavailable { .. }))) => DirectOutcome::NotSent,
        // An answer that takes long may come from a platform that has the message, and so may a panic.
        Ok(Ok(Err(_)) | Err(_)) | Err(_) => DirectOutcome::Unclear,
    };
    tracing::warn!(to = %message.to, ?outcome, "Could not report that the store fails");
    outcome
}
