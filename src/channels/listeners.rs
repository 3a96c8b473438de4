//! Clients that are attached to chats: the pages of the gateway, and the terminals.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::types::message::ChatId;

/// The attached clients of each chat. `T` is the message that they receive.
pub(super) struct Listeners<T> {
    /// Capacity of a client's queue, in messages.
    queue_max: usize,
    /// A mutex, because clients come and go while deliveries run. Locked only briefly.
    by_chat: Mutex<HashMap<ChatId, Vec<mpsc::Sender<T>>>>,
}

impl<T> Listeners<T> {
    pub(super) fn new(queue_max: usize) -> Self {
        Self { queue_max, by_chat: Mutex::default() }
    }

    /// Attaches a client to a chat. It is detached when the receiver is dropped.
    pub(super) fn attach(&self, chat: &ChatId) -> mpsc::Receiver<T> {
        let (sender, receiver) = mpsc::channel(self.queue_max);
        let mut by_chat = self.by_chat.lock().unwrap_or_else(PoisonError::into_inner);
        by_chat.retain(|_, clients| {
            clients.retain(|client| !client.is_closed());
            !clients.is_empty()
        });
        by_chat.entry(chat.clone()).or_default().push(sender);
        receiver
    }

    /// Returns the clients of a chat.
    pub(super) fn of(&self, chat: &ChatId) -> Vec<mpsc::Sender<T>> {
        let by_chat = self.by_chat.lock().unwrap_or_else(PoisonError::into_inner);
        by_chat.get(chat).cloned().unwrap_or_default()
    }

    /// Returns the clients of all other chats whose id begins with `prefix`.
    #[cfg(feature = "gateway")]
    pub(super) fn of_others(&self, prefix: &str, chat: &ChatId) -> Vec<mpsc::Sender<T>> {
        let by_chat = self.by_chat.lock().unwrap_or_else(PoisonError::into_inner);
        let others =
            by_chat.iter().filter(|(id, _)| *id != chat && id.as_str().starts_with(prefix));
        others.flat_map(|(_, clients)| clients.clone()).collect()
    }

    /// Returns the number of attached clients.
    #[cfg(feature = "gateway")]
    pub(super) fn count(&self) -> usize {
        let by_chat = self.by_chat.lock().unwrap_or_else(PoisonError::into_inner);
        by_chat.values().flatten().filter(|client| !client.is_closed()).count()
    }
}
