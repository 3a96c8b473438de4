//! Messages that are sent past the outbox, because the store cannot keep them. Not here: the decision who gets one.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

use super::Channel;
use crate::types::message::{Address, Body, DeliveryId, Outbound};

/// Time for one message.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);

/// Sends a text without any markup. Returns false if it may not have arrived, which is logged.
pub async fn send(channel: &dyn Channel, to: Address, text: &str) -> bool {
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
    let has_arrived = matches!(tokio::time::timeout(SEND_TIME_MAX, sent).await, Ok(Ok(Ok(_))));
    if !has_arrived {
        tracing::warn!(to = %message.to, "Could not report that the store fails");
    }
    has_arrived
}
