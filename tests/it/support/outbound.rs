//! What a channel is given to send.

use peacrab::types::message::{Address, Body, DeliveryId, Outbound};

/// A text, as the part of no other delivery.
pub(crate) fn text_to(id: i64, to: Address, text: &str) -> Outbound {
    let body = Body::Text(text.to_owned());
    Outbound {
        id: DeliveryId(id),
        chunk_index: 0,
        to,
        reply_to: None,
        overtakes: false,
        replaces: None,
        body,
    }
}
