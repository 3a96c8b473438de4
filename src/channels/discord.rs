//! The Discord adapter. Gateway events are received in [`gateway`] and `events`, and decoded in [`inbound`]. `sending`
//! has the outgoing calls, and `call` the meaning of a failed one.
//!
//! Discord gets no acknowledgement of a stored message. The bot remembers its position in the session's sequence, and
//! resumes there, also after a restart. If the session is gone, missed messages are read back from the channels in
//! which the bot was addressed.

mod addresses;
mod call;
mod commands;
mod deadlines;
mod endpoints;
mod ids;
mod events;
mod fetching;
pub mod gateway;
pub mod inbound;
mod link;
mod pages;
mod probe;
mod sending;
pub mod wire;

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::OnceCell;

use super::backlog::Backlog;
pub use super::config::{DiscordConfig as Config, DiscordThreads as Threads};
use super::{
    Channel, ChannelError, ChannelProbe, Drafts, FileContent, GIVE_UP_AFTER, Markup, MediaSink,
    PlatformLimits, SendLookup, Sent, Unit,
};
use crate::bus::Publisher;
use crate::types::message::{Address, Hint, MediaRef, MessageId, Outbound, OverheardLine};
pub use deadlines::DiscordDeadlines;

use addresses::Addresses;
use call::{DiscordApi, DiscordCallError};
use endpoints::Endpoint;
use inbound::DiscordIdentity;
use link::EventPosition;
use wire::DiscordUser;

/// Maximum length of a message (Message resource, create message). Discord counts characters; UTF-16
/// never counts fewer.
const TEXT_MAX: usize = 2000;

/// Interval of typing indicators, which disappear after ten seconds (Channel resource, trigger typing
/// indicator).
const TYPING_EVERY: Duration = Duration::from_secs(8);

/// Interval of edits. A message may be edited five times in five seconds.
const DRAFT_EVERY: Duration = Duration::from_millis(1500);

/// Pause before an ambiguous send is resolved, which is short because Discord can be searched for it.
const AMBIGUITY_PAUSE: Duration = Duration::from_secs(2);

/// Maximum upload of a bot in a server without boosts, in bytes (Reference, uploading files).
const FILE_MAX: u64 = 10 << 20;

/// Maximum number of messages for one answer. More would disturb others.
const MESSAGES_MAX: usize = 5;

/// One Discord bot.
pub struct Discord {
    api: DiscordApi,
    deadlines: DiscordDeadlines,
    threads: Threads,
    me: OnceCell<DiscordIdentity>,
    /// Set once our commands are registered.
    registered_commands: OnceCell<()>,
    addresses: Addresses,
    /// The position for the next link. A mutex, because the next listener takes it over from one that was
    /// dropped. Locked only briefly.
    progress: Mutex<EventPosition>,
    backlog: Backlog,
}

impl Discord {
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Self::with_deadlines(config, DiscordDeadlines::default())
    }

    pub fn with_deadlines(config: &Config, deadlines: DiscordDeadlines) -> anyhow::Result<Self> {
        Ok(Self {
            api: DiscordApi::new(config, &deadlines)?,
            deadlines,
            threads: config.threads,
            me: OnceCell::new(),
            registered_commands: OnceCell::new(),
            addresses: Addresses::default(),
            progress: Mutex::default(),
            backlog: Backlog::default(),
        })
    }

    /// Requests the bot's identity.
    async fn get_me(&self) -> Result<DiscordIdentity, ChannelError> {
        let me = self.api.get::<DiscordUser>(Endpoint::CurrentUser, &[]).await;
        let me = me.map_err(DiscordCallError::while_asking)?;
        Ok(DiscordIdentity { id: me.id, name: me.username })
    }

    /// Returns the bot's identity. Requested once.
    async fn identity(&self) -> Result<&DiscordIdentity, ChannelError> {
        self.me.get_or_try_init(|| self.get_me()).await
    }
}

#[async_trait]
impl Channel for Discord {
    fn limits(&self) -> PlatformLimits {
        PlatformLimits {
            text_max: TEXT_MAX,
            caption_max: TEXT_MAX,
            caption_previews: false,
            unit: Unit::Utf16,
            typing_every: Some(TYPING_EVERY),
            ambiguity_pause: AMBIGUITY_PAUSE,
            give_up_after: GIVE_UP_AFTER,
            drafts: Drafts::Edited { every: DRAFT_EVERY, every_in_groups: DRAFT_EVERY },
            markup: Markup::Discord,
            file_max: FILE_MAX,
            messages_max: MESSAGES_MAX,
            reacts: true,
            replies: true,
        }
    }

    async fn probe(&self) -> Result<ChannelProbe, ChannelError> {
        self.probe_account().await
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        // The future is large: it holds the state of two connections.
        Box::pin(self.keep_listening(publisher)).await
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        match &message.replaces {
            Some(draft) => self.edit(message, draft).await,
            None => self.post(message).await,
        }
    }

    async fn upload(&self, message: &Outbound, file: FileContent) -> Result<Sent, ChannelError> {
        self.post_file(message, file).await
    }

    async fn fetch(&self, media: &MediaRef, into: &mut MediaSink) -> Result<(), ChannelError> {
        self.fetch_file(&media.handle, into).await
    }

    async fn history(
        &self,
        at: &Address,
        before: Option<&MessageId>,
        max: usize,
    ) -> Result<Vec<OverheardLine>, ChannelError> {
        self.read_before(at, before, max).await
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        match hint {
            Hint::Typing => self.show_typing(to).await,
            Hint::React { message, with } => self.react(to, &message, with).await,
            Hint::Erase(draft) => self.erase(to, &draft).await,
            Hint::Draft(_) => Ok(()),
        }
    }

    async fn find(
        &self,
        message: &Outbound,
        since: DateTime<Utc>,
    ) -> Result<SendLookup, ChannelError> {
        match &message.replaces {
            // Repeating an edit does no harm.
            Some(_) => Ok(SendLookup::Absent),
            None => self.look_for(message, since).await,
        }
    }
}
