//! A platform as the agent sees it: listen, send once, hint, find. What differs between platforms
//! is data ([`Limits`]); supervision, splitting and delivery are written once, beside the adapters.

#[cfg(any(feature = "discord", feature = "slack"))]
pub mod backlog;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
pub mod call;
pub mod config;
pub mod deliver;
#[cfg(feature = "discord")]
pub mod discord;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
pub mod hear;
pub mod intake;
pub mod markup;
pub mod network;
pub mod parcel;
#[cfg(feature = "slack")]
pub mod slack;
pub mod supervise;
#[cfg(feature = "telegram")]
pub mod telegram;
pub mod terminal;
pub mod text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use tokio::io::AsyncWriteExt as _;

use crate::bus::{PublishError, Publisher};
use crate::replies;
use crate::types::message::{
    Address, ChannelName, Hint, Line, MediaKind, MediaRef, MessageId, Outbound,
};

pub use config::{Config, Kind};
pub use markup::Markup;

/// All channels of a daemon, by name.
pub type Channels = Arc<BTreeMap<ChannelName, Arc<dyn Channel>>>;

/// The adapter that a section asks for; none for the terminal, which is always there.
pub fn connect(kind: &Kind) -> anyhow::Result<Option<Arc<dyn Channel>>> {
    Ok(match kind {
        #[cfg(feature = "discord")]
        Kind::Discord(config) => Some(Arc::new(discord::Discord::new(config)?)),
        #[cfg(feature = "slack")]
        Kind::Slack(config) => Some(Arc::new(slack::Slack::new(config)?)),
        #[cfg(feature = "telegram")]
        Kind::Telegram(config) => Some(Arc::new(telegram::Telegram::new(config)?)),
        Kind::Terminal => None,
        #[cfg(not(all(feature = "discord", feature = "slack", feature = "telegram")))]
        _ => anyhow::bail!("this program was built without that platform"),
    })
}

/// How long a message is tried while others arrive: a platform's passing trouble with one chat or file is over by
/// then, and the person who waits is better told.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(5 * 60);

/// What a platform allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest text of one message, in `unit`s.
    pub text_max: usize,
    pub unit: Unit,
    /// The longest text under a file, in `unit`s.
    pub caption_max: usize,
    /// How often a typing sign must be repeated to stay; none where there is no such sign.
    pub typing_every: Option<Duration>,
    pub drafts: Drafts,
    /// The least time before a message is sent again of which nobody knows whether it arrived.
    pub doubt_pause: Duration,
    /// How long a message is tried while others of the channel arrive.
    pub give_up_after: Duration,
    /// What chunks are rendered to.
    pub markup: Markup,
    /// The largest file that it takes, in bytes; 0 where it takes none.
    pub file_max: u64,
    /// An answer of more messages than that becomes one, with the whole as a file.
    pub messages_max: usize,
    /// Whether a sign at a message that was taken up is the custom there.
    pub reacts: bool,
    /// A message can name the one that it answers. Where it cannot, a line of it quotes that one if it is not plain
    /// which it is.
    pub replies: bool,
}

/// How an answer is shown while it is written, and the least time between two such signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drafts {
    /// By [`Hint::Draft`]: it leaves nothing behind.
    Hinted { every: Duration },
    /// As a message, which is edited and at last becomes the answer.
    Edited { every: Duration, every_in_groups: Duration },
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

/// What could not be kept is not acknowledged, and comes again with the next link.
impl From<PublishError> for ChannelError {
    fn from(error: PublishError) -> Self {
        Self::unavailable(error.to_string())
    }
}

/// The content of a file to be sent, to be streamed.
#[derive(Debug)]
pub struct FileContent {
    pub name: String,
    pub kind: MediaKind,
    /// In bytes.
    pub length: u64,
    pub file: std::fs::File,
}

/// Where a file that came is written, up to a bound.
pub struct MediaSink {
    file: tokio::fs::File,
    /// Bytes that may still come.
    room: u64,
}

impl MediaSink {
    pub fn new(file: tokio::fs::File, bytes_max: u64) -> Self {
        Self { file, room: bytes_max }
    }

    /// Appends; `Refused` once there is more than there may be.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let Some(room) = self.room.checked_sub(length) else {
            return Err(ChannelError::Refused(replies::FILE_TOO_LARGE.to_owned()));
        };
        self.room = room;
        let written = self.file.write_all(bytes).await;
        written.map_err(|error| ChannelError::unavailable(format!("cannot write a file: {error}")))
    }

    /// The file, all of it written.
    pub async fn finish(mut self) -> std::io::Result<tokio::fs::File> {
        self.file.flush().await?;
        Ok(self.file)
    }
}

#[async_trait]
pub trait Channel: Send + Sync + 'static {
    fn limits(&self) -> Limits;

    /// Publishes what it hears until the link ends. Says to `publisher.link()` when a byte came.
    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError>;

    /// Sends one text or question, once; it is within [`Limits`], in the platform's markup.
    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError>;

    /// Sends one [`Body::File`](crate::types::message::Body::File), once.
    async fn upload(&self, _: &Outbound, _: FileContent) -> Result<Sent, ChannelError> {
        Err(ChannelError::Refused("this channel takes no files".to_owned()))
    }

    /// Streams a file that came with a message.
    async fn fetch(&self, _: &MediaRef, _: &mut MediaSink) -> Result<(), ChannelError> {
        Err(ChannelError::Refused("this channel has no files".to_owned()))
    }

    /// The latest messages at an address, or those before one of them; at most `max`, oldest first.
    /// Empty where the platform does not tell.
    async fn history(
        &self,
        _at: &Address,
        _before: Option<&MessageId>,
        _max: usize,
    ) -> Result<Vec<Line>, ChannelError> {
        Ok(Vec::new())
    }

    /// Best effort.
    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError>;

    /// Asks the platform whether it has a message whose sending began at `since`.
    async fn find(&self, message: &Outbound, since: DateTime<Utc>) -> Result<Found, ChannelError>;
}
