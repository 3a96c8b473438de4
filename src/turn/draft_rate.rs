//! The rate limit of drafts in a chat. All drafts of the chat share it, because the platform counts all messages to the
//! chat together.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::types::message::{Address, ChannelName, ChatId};

/// The drafts of all turns. They outlive their turns.
#[derive(Default)]
pub struct OpenDrafts {
    pub(crate) rate_limit: DraftRateLimit,
    /// Drafts that are being sent to a platform, or deleted there.
    pub(crate) under_way: TaskTracker,
}

impl OpenDrafts {
    /// Waits until no draft is being sent or deleted, for at most `within`.
    pub async fn end(&self, within: Duration) {
        self.under_way.close();
        timeout(within, self.under_way.wait()).await.ok();
    }
}

/// The rate limit of drafts: when the next one may be shown, by chat.
#[derive(Default)]
pub struct DraftRateLimit(
    // A mutex because turns are different tasks; it guards a few instants.
    Mutex<HashMap<(ChannelName, ChatId), Instant>>,
);

impl DraftRateLimit {
    /// Reserves the next time slot for a draft in a chat. Slots are `every` apart. Returns the time until
    /// the slot.
    pub(crate) fn place(&self, at: &Address, every: Duration) -> Duration {
        let now = Instant::now();
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        next.retain(|_, next| *next > now);
        let next = next.entry((at.channel.clone(), at.chat.clone())).or_insert(now);
        let wait = next.saturating_duration_since(now);
        *next += every;
        wait
    }

    /// Blocks drafts in a chat for this time.
    pub(crate) fn rest(&self, at: &Address, pause: Duration) {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next.entry((at.channel.clone(), at.chat.clone())).or_insert_with(Instant::now);
        *next = (*next).max(Instant::now() + pause);
    }
}
