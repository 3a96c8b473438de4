//! The trait [`Channel`], the limits of a platform, and the errors of its calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use tokio::io::AsyncWriteExt as _;

use crate::bus::{PublishError, Publisher};
use crate::replies;
use crate::types::message::{
    Address, ChannelName, Hint, MediaKind, MediaRef, MessageId, Outbound, OverheardLine,
};

/// All channels of a daemon, by name.
pub type Channels = Arc<BTreeMap<ChannelName, Arc<dyn Channel>>>;

/// Time limit for one message while others arrive. Temporary trouble of a platform with one chat or file
/// is over by then, and a person who waits is better served by an explanation.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(5 * 60);

/// Limits and features of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlatformLimits {
    /// Maximum length of one message, in `unit`s.
    pub text_max: usize,
    pub unit: Unit,
    /// Maximum length of a file's caption, in `unit`s.
    pub caption_max: usize,
    /// True if the platform always fetches links in a caption. A caption with a link then follows the file as text.
    pub caption_previews: bool,
    /// Interval at which a typing indicator must be repeated to stay. None if the platform has none.
    pub typing_every: Option<Duration>,
    pub drafts: Drafts,
    /// Minimum pause before an ambiguous send (it may or may not have arrived) is repeated.
    pub ambiguity_pause: Duration,
    /// Time limit for one message while others of the channel arrive.
    pub give_up_after: Duration,
    /// Output format of chunks.
    pub markup: Markup,
    /// Maximum size of a file, in bytes. 0 if the platform takes no files.
    pub file_max: u64,
    /// Maximum number of messages for one answer. A longer answer becomes one message with the whole as a
    /// file.
    pub messages_max: usize,
    /// True if bots on this platform usually react to a message that they have accepted.
    pub reacts: bool,
    /// True if a message can name the one that it answers. If it cannot, a quoted line of the question
    /// makes clear what an ambiguous answer belongs to.
    pub replies: bool,
}

/// Text format of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// The text is neither parsed nor converted.
    Plain,
    /// Markdown source for a person to read, without its backslash escapes.
    Terminal,
    /// The HTML of Telegram's Bot API.
    TelegramHtml,
    /// Discord's own markdown.
    Discord,
    /// Slack's mrkdwn.
    Slack,
}

/// Method of showing an answer while it is written, and the minimum interval between two updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drafts {
    /// By [`Hint::Draft`], which leaves no message behind.
    Hinted { every: Duration },
    /// As a message that is edited and finally becomes the answer.
    Edited { every: Duration, every_in_groups: Duration },
}

/// The unit in which a platform measures texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Utf16,
    Chars,
}

/// A message that the platform has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// None if the platform's answer could not be read, or has no ids.
    pub id: Option<MessageId>,
}

/// The result of a search for a message on the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendLookup {
    Sent(Sent),
    Absent,
    Unknowable,
}

/// The bot's account on the platform, and the faults of its setup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelProbe {
    /// The bot's name there, such as `@pea_bot`.
    pub name: String,
    /// The address at which a person opens a chat with the bot, or adds it. None if it has no such address.
    pub link: Option<String>,
    /// Faults beside an accepted token, each with what to do.
    pub faults: Vec<String>,
}

/// A failed call of a platform, sorted by who acts next.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Try later: a rate limit, a 5xx, no network. The message has certainly not been sent.
    #[error("{reason}")]
    Unavailable { after: Option<Duration>, reason: String },
    /// The message may or may not have been sent: the connection was lost after the request had gone out.
    #[error("{0}")]
    Ambiguous(String),
    /// The draft that the message was to replace does not exist any more. Nothing was sent.
    #[error("the draft is gone")]
    DraftGone,
    /// This message can never be sent: blocked, chat gone, not allowed.
    #[error("{0}")]
    Refused(String),
    /// The operator must act: the platform does not accept our token.
    #[error("{0}")]
    Closed(String),
}

impl ChannelError {
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { after: None, reason: reason.into() }
    }
}

/// An event that could not be stored is not acknowledged. The platform repeats it over the next link.
impl From<PublishError> for ChannelError {
    fn from(error: PublishError) -> Self {
        Self::unavailable(error.to_string())
    }
}

/// A file to upload, as a stream.
#[derive(Debug)]
pub struct FileContent {
    pub name: String,
    pub kind: MediaKind,
    /// In bytes.
    pub length: u64,
    pub file: std::fs::File,
}

/// Writes an incoming file to disk, up to a size limit.
pub struct MediaSink {
    file: tokio::fs::File,
    /// Bytes that may still be written.
    bytes_left: u64,
}

impl MediaSink {
    pub fn new(file: tokio::fs::File, bytes_max: u64) -> Self {
        Self { file, bytes_left: bytes_max }
    }

    /// Appends `bytes`. Returns `Refused` if the file exceeds its limit.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let Some(bytes_left) = self.bytes_left.checked_sub(length) else {
            return Err(ChannelError::Refused(replies::FILE_TOO_LARGE.to_owned()));
        };
        self.bytes_left = bytes_left;
        let result = self.file.write_all(bytes).await;
        result.map_err(|error| ChannelError::unavailable(format!("cannot write a file: {error}")))
    }

    /// Flushes the file, and returns it.
    pub async fn finish(mut self) -> std::io::Result<tokio::fs::File> {
        self.file.flush().await?;
        Ok(self.file)
    }
}

/// The adapter of one configured channel.
#[async_trait]
pub trait Channel: Send + Sync + 'static {
    fn limits(&self) -> PlatformLimits;

    /// Requests the bot's account and the faults of its setup. Confirms no event, and keeps no link open.
    async fn probe(&self) -> Result<ChannelProbe, ChannelError> {
        Ok(ChannelProbe::default())
    }

    /// Publishes events until the link ends. Calls [`Publisher::note_bytes`] whenever data arrives.
    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError>;

    /// Sends one text or question, once. The message is within [`PlatformLimits`] and in the platform's markup.
    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError>;

    /// Sends one [`Body::File`](crate::types::message::Body::File), once.
    async fn upload(&self, _: &Outbound, _: FileContent) -> Result<Sent, ChannelError> {
        Err(ChannelError::Refused("this channel takes no files".to_owned()))
    }

    /// Streams a file that belongs to an incoming message.
    async fn fetch(&self, _: &MediaRef, _: &mut MediaSink) -> Result<(), ChannelError> {
        Err(ChannelError::Refused("this channel has no files".to_owned()))
    }

    /// Returns up to `max` messages at an address, oldest first: the latest, or those before a given one.
    /// Empty if the platform has no history.
    async fn history(
        &self,
        _at: &Address,
        _before: Option<&MessageId>,
        _max: usize,
    ) -> Result<Vec<OverheardLine>, ChannelError> {
        Ok(Vec::new())
    }

    /// Sends a hint, best effort.
    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError>;

    /// Searches the platform for a message whose sending began at `since`.
    async fn find(
        &self,
        message: &Outbound,
        since: DateTime<Utc>,
    ) -> Result<SendLookup, ChannelError>;
}
