//! A platform as the agent sees it: listen, send once, hint, find. What differs between platforms
//! is data ([`Limits`]); supervision, splitting and delivery are written once, beside the adapters.

pub mod deliver;
pub mod markup;
pub mod supervise;
pub mod telegram;
pub mod terminal;
pub mod text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::bus::Publisher;
use crate::message::{Address, ChannelName, Hint, MessageId, Outbound};
use crate::people::Access;

/// All channels of a daemon, by name.
pub type Channels = Arc<BTreeMap<ChannelName, Arc<dyn Channel>>>;

/// One `[channels.NAME]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub access: Access,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Telegram(telegram::Config),
    Terminal,
}

/// What a platform allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest text of one message, in `unit`s.
    pub text_max: usize,
    pub unit: Unit,
    /// How often a typing sign must be repeated to stay; none where there is no such sign.
    pub typing_every: Option<Duration>,
    pub drafts: Drafts,
    /// The least time before a message is sent again of which nobody knows whether it arrived.
    pub doubt_pause: Duration,
}

/// How an answer is shown while it is written, and the least time between two such signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drafts {
    /// By [`Hint::Draft`]: it leaves nothing behind.
    Hinted { every: Duration },
    /// As a message, which is edited and at last becomes the answer.
    Edited { every: Duration },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Utf16,
    Chars,
}

/// A message that the platform has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// None where the platform's answer could not be read, or has no ids.
    pub id: Option<MessageId>,
}

/// What a platform says when it is asked whether it has a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Sent(Sent),
    Absent,
    Unknowable,
}

/// Sorted by who acts next.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Try later: a rate limit, a 5xx, no network. Certain not to have been sent.
    #[error("{reason}")]
    Unavailable { after: Option<Duration>, reason: String },
    /// May or may not have been sent: the link was lost after the request had gone out.
    #[error("{0}")]
    Ambiguous(String),
    /// The draft that the message was to take the place of is not there any more; nothing was sent.
    #[error("the draft is gone")]
    DraftGone,
    /// Never, for this message: blocked, chat gone, not allowed.
    #[error("{0}")]
    Refused(String),
    /// The operator acts: the platform does not accept our token.
    #[error("{0}")]
    Closed(String),
}

impl ChannelError {
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { after: None, reason: reason.into() }
    }
}

#[async_trait]
pub trait Channel: Send + Sync + 'static {
    fn limits(&self) -> Limits;

    /// Publishes what it hears until the link ends. Says to `publisher.link()` when a byte came.
    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError>;

    /// Sends one message, once; its text is within [`Limits`].
    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError>;

    /// Best effort.
    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError>;

    /// Asks the platform whether it has a message whose sending began at `since`.
    async fn find(&self, message: &Outbound, since: DateTime<Utc>) -> Result<Found, ChannelError>;
}
