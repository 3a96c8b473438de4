//! Discord. What comes over its gateway is in [`gateway`] and `events`, and is decoded in [`inbound`]; what
//! goes out is in `sending`, and what a failed call means in `call`.
//!
//! Discord is told nothing when a message has been kept: we remember how far in the session's
//! sequence we have got, and go on from there, also after a restart. Where the session is gone, what
//! was missed is read back from the places that have spoken to the bot.

mod addresses;
mod call;
mod commands;
mod endpoints;
mod events;
mod fetching;
pub mod gateway;
pub mod inbound;
mod link;
mod pages;
mod sending;
pub mod wire;

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serenity::model::id;
use tokio::sync::OnceCell;

use super::backlog::Backlog;
pub use super::config::{DiscordConfig as Config, DiscordThreads as Threads};
use super::{
    Channel, ChannelError, Drafts, FileContent, Found, GIVE_UP_AFTER, Limits, Markup, MediaSink,
    Sent, Unit,
};
use crate::bus::Publisher;
use crate::types::message::{Address, Hint, Line, MediaRef, MessageId, Outbound};

use addresses::Addresses;
use call::{Api, CallError};
use endpoints::Endpoint;
use inbound::Identity;
use link::Progress;
use wire::User;

/// Discord's limit (Message resource, create message); it counts characters, of which UTF-16 has never
/// fewer.
const TEXT_MAX: usize = 2000;

/// A typing sign goes away after ten seconds (Channel resource, trigger typing indicator).
const TYPING_EVERY: Duration = Duration::from_secs(8);

/// A message may be edited five times in five seconds.
const DRAFT_EVERY: Duration = Duration::from_millis(1500);

/// Discord can be asked whether it has a message, so doubts need not last.
const DOUBT_PAUSE: Duration = Duration::from_secs(2);

/// What a bot may upload in a server without boosts (Reference, uploading files).
const FILE_MAX: u64 = 10 << 20;

/// More would be in the way of others.
const MESSAGES_MAX: usize = 5;

/// How long to wait for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub connect: Duration,
    /// For a whole call, but an upload's.
    pub call: Duration,
    /// From a connection to the gateway, or a missed event on it, to its word that the session goes;
    /// then another session is begun.
    pub ready: Duration,
    /// How long a link may say nothing at all: longer than from one heartbeat to the next, and less
    /// than a minute.
    pub silence: Duration,
    /// The longest wait before a new session, when one has become invalid.
    pub identify: Duration,
    /// How long new events wait for what was missed before them.
    pub catch_up: Duration,
    /// Until a place that could not be read back is tried again.
    pub again: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(20),
            ready: Duration::from_secs(30),
            // Discord's heartbeats are 41 s apart, each with an answer.
            silence: Duration::from_secs(55),
            identify: Duration::from_secs(5),
            catch_up: Duration::from_secs(3),
            again: Duration::from_secs(30),
        }
    }
}

/// One bot.
pub struct Discord {
    api: Api,
    deadlines: Deadlines,
    threads: Threads,
    me: OnceCell<Identity>,
    /// Set once Discord has our commands.
    told_commands: OnceCell<()>,
    addresses: Addresses,
    /// How far we have got, for the next link. A mutex, since a listener that was dropped leaves it to
    /// the next one; it guards a few words.
    progress: Mutex<Progress>,
    backlog: Backlog,
}

impl Discord {
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Self::with_deadlines(config, Deadlines::default())
    }

    pub fn with_deadlines(config: &Config, deadlines: Deadlines) -> anyhow::Result<Self> {
        Ok(Self {
            api: Api::new(config, &deadlines)?,
            deadlines,
            threads: config.threads,
            me: OnceCell::new(),
            told_commands: OnceCell::new(),
            addresses: Addresses::default(),
            progress: Mutex::default(),
            backlog: Backlog::default(),
        })
    }

    async fn get_me(&self) -> Result<Identity, ChannelError> {
        let me = self.api.get::<User>(Endpoint::CurrentUser, &[]).await;
        let me = me.map_err(CallError::while_asking)?;
        Ok(Identity { id: me.id, name: me.username })
    }

    /// Who we are, asked for once.
    async fn identity(&self) -> Result<&Identity, ChannelError> {
        self.me.get_or_try_init(|| self.get_me()).await
    }
}

#[async_trait]
impl Channel for Discord {
    fn limits(&self) -> Limits {
        Limits {
            text_max: TEXT_MAX,
            caption_max: TEXT_MAX,
            unit: Unit::Utf16,
            typing_every: Some(TYPING_EVERY),
            doubt_pause: DOUBT_PAUSE,
            give_up_after: GIVE_UP_AFTER,
            drafts: Drafts::Edited { every: DRAFT_EVERY, every_in_groups: DRAFT_EVERY },
            markup: Markup::Discord,
            file_max: FILE_MAX,
            messages_max: MESSAGES_MAX,
            reacts: true,
            replies: true,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        // It holds two connections' state.
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
    ) -> Result<Vec<Line>, ChannelError> {
        self.read_before(at, before, max).await
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        match hint {
            Hint::Typing => self.type_in(to).await,
            Hint::React { message, with } => self.react(to, &message, with).await,
            Hint::Erase(draft) => self.erase(to, &draft).await,
            Hint::Draft(_) => Ok(()),
        }
    }

    async fn find(&self, message: &Outbound, since: DateTime<Utc>) -> Result<Found, ChannelError> {
        match &message.replaces {
            // An edit may be made again without harm.
            Some(_) => Ok(Found::Absent),
            None => self.look_for(message, since).await,
        }
    }
}

/// What serenity takes for an id; it panics at 0.
fn number(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is no id on Discord"))
}

fn channel_id(text: &str) -> Result<id::ChannelId, String> {
    number(text).map(id::ChannelId::new)
}

fn message_id(text: &str) -> Result<id::MessageId, String> {
    number(text).map(id::MessageId::new)
}
