//! The rate limit of drafts in a chat. All drafts there share it, since a platform counts all that is sent to the chat,
//! and a limit for one is a limit for all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::types::message::{Address, ChannelName, ChatId};

/// Drafts that turns show, whatever becomes of those turns.
#[derive(Default)]
pub struct OpenDrafts {
    pub(crate) rate_limit: DraftRateLimit,
    /// Drafts that are on their way to a platform, or being taken away there.
    pub(crate) under_way: TaskTracker,
}

impl OpenDrafts {
    /// Waits until no draft is on its way any more, for so long at most.
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
