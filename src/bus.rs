//! The in-process bus: the journal on the way in, the outbox on the way out.

use chrono::{DateTime, Utc};

use crate::message::{ChannelName, DedupKey, Inbound};
use crate::people::Groups;

/// The store could not take a message; it was not accepted and must not be acknowledged.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PublishError(pub String);

/// What became of a message; each of them may be acknowledged to the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    Accepted,
    /// It had been accepted before.
    Repeated,
    /// Its sender is not let in, and was told so where that is polite.
    TurnedAway,
}

/// A channel's way onto the bus.
pub struct Publisher {
    channel: ChannelName,
}

impl Publisher {
    pub fn channel(&self) -> &ChannelName {
        &self.channel
    }

    /// When the bot answers in this channel's groups.
    pub fn groups(&self) -> Groups {
        Groups::Mention
    }

    /// Admits a message and commits it to the journal. When this returns `Ok`, the platform may be
    /// told that the message has arrived.
    pub async fn publish(&self, _inbound: Inbound) -> Result<Published, PublishError> {
        std::future::ready(Ok(Published::Accepted)).await
    }

    /// Keeps what could not be read, for a person to look at.
    pub async fn keep_raw(&self, _key: DedupKey, _raw: String) -> Result<(), PublishError> {
        std::future::ready(Ok(())).await
    }

    /// Notes that the platform's server was heard from just now.
    pub fn heard_byte(&self) {}

    /// Notes that the link works: the platform has accepted our token. `about` is shown by `status`.
    pub fn link_up(&self, _about: String) {}

    /// The channel's own durable mark (an offset, say), and when it was set.
    pub async fn mark(&self) -> Result<Option<(String, DateTime<Utc>)>, PublishError> {
        std::future::ready(Ok(None)).await
    }

    pub async fn set_mark(&self, _mark: String) -> Result<(), PublishError> {
        std::future::ready(Ok(())).await
    }
}
