//! How often drafts may be shown in a chat: all that are under way there share one pace, since a
//! platform counts what is sent to the chat, and what it asks of one it asks of all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::types::message::{Address, ChannelName, ChatId};

/// When the next draft may be shown, by chat.
#[derive(Default)]
pub struct Paces(
    // A mutex because turns are different tasks; it guards a few instants.
    Mutex<HashMap<(ChannelName, ChatId), Instant>>,
);

impl Paces {
    /// Takes the next place in a chat's line of drafts that are `every` apart; how long until it is
    /// there.
    pub(crate) fn place(&self, at: &Address, every: Duration) -> Duration {
        let now = Instant::now();
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        next.retain(|_, next| *next > now);
        let next = next.entry((at.channel.clone(), at.chat.clone())).or_insert(now);
        let wait = next.saturating_duration_since(now);
        *next += every;
        wait
    }

    /// No draft is to be shown in a chat for so long.
    pub(crate) fn rest(&self, at: &Address, wait: Duration) {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next.entry((at.channel.clone(), at.chat.clone())).or_insert_with(Instant::now);
        *next = (*next).max(Instant::now() + wait);
    }
}
