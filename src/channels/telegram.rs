//! The Telegram adapter, by long polling (`polling`). [`inbound`] decodes updates, and `call` has the meaning of a
//! failed call.

mod call;
mod files;
pub mod inbound;
pub mod offset;
mod outgoing;
mod polling;
mod probe;
pub mod poll_conflict;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::Value;
use teloxide::payloads::{GetMe, GetMyCommands, SetMyCommands};
use teloxide::types::BotCommand;

pub use super::config::TelegramConfig as Config;
use super::{
    Channel, ChannelError, ChannelProbe, Drafts, FileContent, GIVE_UP_AFTER, Markup, MediaSink,
    PlatformLimits, SendLookup, Sent, Unit,
};
use crate::bus::Publisher;
use crate::types::commands;
use crate::types::message::{Address, Hint, MediaRef, Outbound};

use call::{TelegramApi, TelegramCallError};
use inbound::TelegramIdentity;
use poll_conflict::PollConflicts;
use polling::Albums;

/// Maximum length of a text, in UTF-16 units (Bot API, sendMessage).
const TEXT_MAX: usize = 4096;

/// Maximum length of a caption, in UTF-16 units (Bot API, sendPhoto and similar methods).
const CAPTION_MAX: usize = 1024;

/// Maximum size of a file that a bot may send, in bytes (Bot API, "Sending files").
const FILE_MAX: u64 = 50_000_000;

/// Maximum number of messages for one answer. A longer one is easier to read as a file.
const MESSAGES_MAX: usize = 5;

/// The format of our chunks.
const MARKUP: Markup = Markup::TelegramHtml;

/// Interval of typing indicators, which disappear after five seconds (Bot API, sendChatAction).
const TYPING_EVERY: Duration = Duration::from_secs(4);

/// Deadlines for Telegram's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelegramDeadlines {
    pub connect: Duration,
    /// For a whole call, except a poll.
    pub call: Duration,
    /// For the answer to a pressed button, which shows that it waits.
    pub press: Duration,
    /// For a whole file, in or out.
    pub file: Duration,
    /// Time for which the server holds a poll open. Whole seconds.
    pub poll: Duration,
    /// Additional time for its answer, before the link counts as dead.
    pub poll_grace: Duration,
    /// Pause before a file that Telegram could not reach is requested again. Each pause is longer.
    pub ask_again: Duration,
}

impl Default for TelegramDeadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(20),
            press: Duration::from_secs(3),
            // 50 MB at less than 2 Mbit/s. Below the deadline of deliveries.
            file: Duration::from_secs(240),
            // Some routers forget a silent connection after 30 s.
            poll: Duration::from_secs(25),
            // A half-open socket is noticed after 40 s.
            poll_grace: Duration::from_secs(15),
            ask_again: Duration::from_secs(2),
        }
    }
}

/// Pause after which Telegram's brief outages are over. The deliverer bounds the number of copies.
const AMBIGUITY_PAUSE: Duration = Duration::from_secs(10);

/// Interval of edits. A chat may get one message a second, a group 20 a minute (Bot API FAQ, "My bot is
/// hitting limits").
const DRAFT_EVERY: Duration = Duration::from_secs(1);
const DRAFT_EVERY_IN_GROUPS: Duration = Duration::from_secs(3);

/// Time after which the next link requests our identity again. Names and privacy mode rarely change, and
/// a failed poll is no reason to ask.
const IDENTITY_TIME: Duration = Duration::from_secs(3600);

/// Time limit for registering the commands when the link comes up. Receiving is more urgent.
const COMMANDS_TIME_MAX: Duration = Duration::from_secs(5);

/// One Telegram bot.
pub struct Telegram {
    api: TelegramApi,
    deadlines: TelegramDeadlines,
    /// Our identity, and the time of the request. A mutex, because a link may end and begin again. It
    /// guards a few short names.
    me: Mutex<Option<(TelegramIdentity, Instant)>>,
    /// True if our commands are registered.
    has_commands: AtomicBool,
    /// The albums that addressed the bot. A mutex for the same reason.
    albums: Mutex<Albums>,
    /// Polls and conflicts. A mutex for the same reason.
    poll_conflicts: Mutex<PollConflicts>,
}

impl Telegram {
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Self::with_deadlines(config, TelegramDeadlines::default())
    }

    pub fn with_deadlines(config: &Config, deadlines: TelegramDeadlines) -> anyhow::Result<Self> {
        Ok(Self {
            api: TelegramApi::new(config, &deadlines)?,
            deadlines,
            me: Mutex::default(),
            has_commands: AtomicBool::new(false),
            albums: Mutex::default(),
            poll_conflicts: Mutex::default(),
        })
    }

    /// Requests our identity.
    async fn ask_identity(&self) -> Result<TelegramIdentity, ChannelError> {
        self.api
            .call(&GetMe::new(), self.deadlines.call)
            .await
            .map_err(TelegramCallError::while_asking)
    }

    /// Returns our identity, requested or remembered.
    async fn identity(&self) -> Result<TelegramIdentity, ChannelError> {
        let known = self.me.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((me, requested_at)) = known
            && requested_at.elapsed() < IDENTITY_TIME
        {
            return Ok(me);
        }
        let me = self.ask_identity().await?;
        let remembered = Some((me.clone(), Instant::now()));
        *self.me.lock().unwrap_or_else(PoisonError::into_inner) = remembered;
        Ok(me)
    }

    /// Registers our commands, unless they are registered already. A failure is only logged.
    async fn list_commands(&self) {
        if self.has_commands.load(Ordering::Relaxed) {
            return;
        }
        let wanted: Vec<_> =
            commands::menu().map(|(spec, about)| BotCommand::new(spec.name, about)).collect();
        let deadline = self.deadlines.call.min(COMMANDS_TIME_MAX);
        let registering = async {
            let registered: Vec<BotCommand> =
                self.api.call(&GetMyCommands::new(), deadline).await?;
            if registered != wanted {
                self.api.call::<_, Value>(&SetMyCommands::new(wanted), deadline).await?;
            }
            Ok(())
        };
        match registering.await.map_err(TelegramCallError::while_asking) {
            Ok(()) => self.has_commands.store(true, Ordering::Relaxed),
            Err(error) => tracing::info!(%error, "Cannot register the commands at Telegram"),
        }
    }
}

#[async_trait]
impl Channel for Telegram {
    fn limits(&self) -> PlatformLimits {
        PlatformLimits {
            text_max: TEXT_MAX,
            unit: Unit::Utf16,
            caption_max: CAPTION_MAX,
            caption_previews: false,
            typing_every: Some(TYPING_EVERY),
            ambiguity_pause: AMBIGUITY_PAUSE,
            give_up_after: GIVE_UP_AFTER,
            drafts: Drafts::Edited { every: DRAFT_EVERY, every_in_groups: DRAFT_EVERY_IN_GROUPS },
            markup: MARKUP,
            file_max: FILE_MAX,
            messages_max: MESSAGES_MAX,
            reacts: false,
            replies: true,
        }
    }

    async fn probe(&self) -> Result<ChannelProbe, ChannelError> {
        self.probe_account().await
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        self.poll_for_ever(publisher).await
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        self.send_text(message).await
    }

    async fn upload(&self, message: &Outbound, file: FileContent) -> Result<Sent, ChannelError> {
        self.send_file(message, &file).await
    }

    async fn fetch(&self, media: &MediaRef, into: &mut MediaSink) -> Result<(), ChannelError> {
        self.fetch_file(media, into).await
    }

    async fn hint(&self, to: &Address, hint: Hint) -> Result<(), ChannelError> {
        match hint {
            Hint::Typing => self.show_typing(to).await,
            Hint::React { message, with } => self.react(to, &message, with).await,
            Hint::Erase(draft) => self.erase(to, &draft).await,
            Hint::Draft(_) => Ok(()),
        }
    }

    /// Unknowable: a bot cannot read its own messages.
    async fn find(
        &self,
        _message: &Outbound,
        _since: DateTime<Utc>,
    ) -> Result<SendLookup, ChannelError> {
        Ok(SendLookup::Unknowable)
    }
}
