//! Telegram, by long polling. [`inbound`] decodes updates, and `call` has the meaning of a failed call. A
//! request for the next update confirms the one before, and is sent only after `publish` has returned.
//! Nothing else here confirms updates.

mod call;
mod files;
pub mod inbound;
pub mod offset;
mod outgoing;
mod probe;
pub mod rival;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use teloxide::payloads::{GetMe, GetMyCommands, GetUpdates, SetMyCommands};
use teloxide::types::{AllowedUpdate, BotCommand};

pub use super::config::TelegramConfig as Config;
use super::{
    Channel, ChannelError, ChannelProbe, Drafts, FileContent, GIVE_UP_AFTER, Markup, MediaSink,
    PlatformLimits, SendLookup, Sent, Unit,
};
use crate::bus::{Published, Publisher};
use crate::channels::hear::{self, Addressee, InboundEvent};
use crate::types::commands;
use crate::types::message::{Address, ChannelName, Hint, MediaRef, Outbound};

use call::{TelegramApi, TelegramCallError};
use inbound::{Decoded, TelegramIdentity, TelegramReadingContext};
use offset::Offset;
use rival::Rivalry;

/// Maximum length of a text, in UTF-16 units (Bot API, sendMessage).
const TEXT_MAX: usize = 4096;

/// Maximum length of a caption, in UTF-16 units (Bot API, sendPhoto and similar methods).
const CAPTION_MAX: usize = 1024;

/// Maximum size of a file that a bot may send, in bytes (Bot API, "Sending files").
const FILE_MAX: u64 = 50_000_000;

/// A longer answer is easier to read as a file.
const MESSAGES_MAX: usize = 5;

/// The format of our chunks.
const MARKUP: Markup = Markup::TelegramHtml;

/// A typing indicator disappears after five seconds (Bot API, sendChatAction).
const TYPING_EVERY: Duration = Duration::from_secs(4);

/// Minimum duration of an empty long poll. If one ends sooner, something between us and Telegram does not
/// wait, and without a pause we would send thousands of requests per second.
const EMPTY_POLL_MIN: Duration = Duration::from_secs(1);

/// Deadlines for Telegram's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelegramDeadlines {
    pub connect: Duration,
    /// For a whole call, except a poll.
    pub call: Duration,
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

/// Telegram's brief outages are over by then. The deliverer bounds the number of copies.
const AMBIGUITY_PAUSE: Duration = Duration::from_secs(10);

/// A chat may get one message a second, a group 20 a minute (Bot API FAQ, "My bot is hitting limits").
const DRAFT_EVERY: Duration = Duration::from_secs(1);
const DRAFT_EVERY_IN_GROUPS: Duration = Duration::from_secs(3);

/// Time after which the next link requests our identity again. Names and privacy mode rarely change, and
/// a failed poll is no reason to ask.
const IDENTITY_TIME: Duration = Duration::from_secs(3600);

/// Commands are registered when the link comes up. Receiving is more urgent.
const COMMANDS_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum number of parallel answers to pressed buttons. Further presses get no answer while so many
/// wait.
const ANSWERS_MAX: usize = 16;

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
    rivalry: Mutex<Rivalry>,
}

/// The albums that recently addressed the bot, over whichever link.
#[derive(Default)]
struct Albums(VecDeque<Album>);

/// An album, by the name that it has in its chat.
#[derive(PartialEq, Eq)]
struct Album {
    chat: String,
    name: String,
}

/// Maximum number of remembered albums: chats that send one at the same time, in a few messages each.
const ALBUMS_MAX: usize = 64;

impl Albums {
    fn note(&mut self, album: Album) {
        if self.0.contains(&album) {
            return;
        }
        if self.0.len() >= ALBUMS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(album);
    }
}

/// Returns the album that an update belongs to.
fn album_of(update: &RawUpdate) -> Option<Album> {
    let message = update.get("message").or_else(|| update.get("edited_message"))?;
    let name = message.get("media_group_id")?.as_str()?.to_owned();
    Some(Album { chat: message.get("chat")?.get("id")?.to_string(), name })
}

/// An accepted press and its outcome. None if the button was not ours.
struct PressAnswer {
    query: String,
    published: Option<Published>,
}

/// An update that is not decoded yet.
type RawUpdate = Value;

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
            rivalry: Mutex::default(),
        })
    }

    /// Returns our identity, requested or remembered.
    async fn ask_identity(&self) -> Result<TelegramIdentity, ChannelError> {
        self.api
            .call(&GetMe::new(), self.deadlines.call)
            .await
            .map_err(TelegramCallError::while_asking)
    }

    async fn identity(&self) -> Result<TelegramIdentity, ChannelError> {
        let known = self.me.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((me, asked)) = known
            && asked.elapsed() < IDENTITY_TIME
        {
            return Ok(me);
        }
        let me = self.ask_identity().await?;
        let told = Some((me.clone(), Instant::now()));
        *self.me.lock().unwrap_or_else(PoisonError::into_inner) = told;
        Ok(me)
    }

    /// Requests updates. Telegram may wait `hold` for one, in whole seconds.
    async fn poll(
        &self,
        offset: Option<i32>,
        hold: Duration,
    ) -> Result<Vec<RawUpdate>, ChannelError> {
        let ask = GetUpdates {
            offset,
            limit: None,
            timeout: u32::try_from(hold.as_secs()).ok(),
            allowed_updates: Some(vec![
                AllowedUpdate::Message,
                AllowedUpdate::EditedMessage,
                AllowedUpdate::CallbackQuery,
            ]),
        };
        let deadline = hold + self.deadlines.poll_grace;
        let answer = self.api.call(&ask, deadline).await;
        let mut rivalry = self.rivalry.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(updates) => {
                rivalry.polled(Instant::now());
                Ok(updates)
            }
            Err(error) if error.is_conflict() && rivalry.conflict() => {
                Err(ChannelError::Closed(rival::MAKES_WAY.to_owned()))
            }
            Err(error) => Err(error.while_asking()),
        }
    }

    /// Registers our commands, unless they are registered already. Nothing depends on it.
    async fn list_commands(&self) {
        if self.has_commands.load(Ordering::Relaxed) {
            return;
        }
        let wanted: Vec<_> =
            commands::menu().map(|(spec, about)| BotCommand::new(spec.name, about)).collect();
        let deadline = self.deadlines.call.min(COMMANDS_TIME_MAX);
        let listed = async {
            let there: Vec<BotCommand> = self.api.call(&GetMyCommands::new(), deadline).await?;
            if there != wanted {
                self.api.call::<_, Value>(&SetMyCommands::new(wanted), deadline).await?;
            }
            Ok(())
        };
        match listed.await.map_err(TelegramCallError::while_asking) {
            Ok(()) => self.has_commands.store(true, Ordering::Relaxed),
            Err(error) => tracing::info!(%error, "Cannot register the commands at Telegram"),
        }
    }

    fn albums(&self) -> MutexGuard<'_, Albums> {
        self.albums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts updates and advances the offset. Once this returns, they may be confirmed.
    async fn take_in(
        &self,
        updates: &[RawUpdate],
        offset: &mut Offset,
        bot: &TelegramIdentity,
        publisher: &Publisher,
    ) -> Result<Vec<PressAnswer>, ChannelError> {
        let (mut events, mut queries) = (Vec::new(), Vec::new());
        // An update without an id cannot be confirmed, nor can the ones after it.
        for (update, id) in updates.iter().map_while(|it| Some((it, update_id(it).ok()?))) {
            let Decoded { event, query } = self.decode(update, bot, publisher.channel());
            events.push(event);
            queries.push(query);
            offset.advance(id, Utc::now());
        }
        let outcomes = hear::receive(publisher, events, offset.mark()).await?;
        let answers = queries.into_iter().zip(outcomes).filter_map(|(query, outcome)| {
            Some(PressAnswer { query: query?, published: outcome.published() })
        });
        let answers = answers.collect();
        updates.iter().try_for_each(|update| update_id(update).map(drop))?;
        Ok(answers)
    }

    /// Decodes one update, and notes its album if it addresses the bot.
    fn decode(&self, update: &RawUpdate, bot: &TelegramIdentity, channel: &ChannelName) -> Decoded {
        let album = album_of(update);
        let known = album.as_ref().filter(|album| self.albums().0.contains(album));
        let album_name = known.map(|album| album.name.as_str());
        let context = TelegramReadingContext { bot, channel, album: album_name, now: Utc::now() };
        let decoded = inbound::decode(update, &context);
        if let (InboundEvent::New(message), Some(album)) = (&decoded.event, album)
            && message.addressee == Addressee::Bot
        {
            self.albums().note(album);
        }
        decoded
    }
}

/// Describes a link for `status`.
fn about(bot: &TelegramIdentity) -> String {
    let name = &bot.username;
    if bot.can_read_all_group_messages {
        format!("@{name}")
    } else {
        format!("@{name}, sees only messages to the bot in groups (privacy mode)")
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
        self.ask_who_we_are().await
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let bot = self.identity().await?;
        let mark = publisher.mark().await?;
        let mut offset = Offset::from_mark(bot.id, mark);
        // They run beside the loop, because nobody else waits for an answer that only the presser sees.
        let mut answers = FuturesUnordered::new();
        // The first poll is answered at once: only that shows that the link works.
        let mut hold = Duration::ZERO;
        loop {
            let asked = Instant::now();
            let updates = beside(self.poll(offset.ask(Utc::now()), hold), &mut answers).await?;
            publisher.note_bytes();
            if hold.is_zero() {
                publisher.link_up(about(&bot));
            }
            let taken = self.take_in(&updates, &mut offset, &bot, publisher);
            for PressAnswer { query, published } in beside(taken, &mut answers).await? {
                if answers.len() < ANSWERS_MAX {
                    answers.push(self.answer_press(query, published));
                }
            }
            if updates.is_empty() && !hold.is_zero() && asked.elapsed() < EMPTY_POLL_MIN {
                beside(tokio::time::sleep(EMPTY_POLL_MIN), &mut answers).await;
            }
            if hold.is_zero() {
                beside(self.list_commands(), &mut answers).await;
                hold = self.deadlines.poll;
            }
        }
    }

    async fn send(&self, message: &Outbound) -> Result<Sent, ChannelError> {
        self.say(message).await
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

    /// A bot cannot read what it has sent.
    async fn find(
        &self,
        _message: &Outbound,
        _since: DateTime<Utc>,
    ) -> Result<SendLookup, ChannelError> {
        Ok(SendLookup::Unknowable)
    }
}

/// Awaits `work`, and drives the `others` meanwhile.
async fn beside<T>(
    work: impl Future<Output = T>,
    others: &mut FuturesUnordered<impl Future<Output = ()>>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Some(()) = others.next() => {}
        }
    }
}

fn update_id(update: &RawUpdate) -> Result<i32, ChannelError> {
    let id = update.get("update_id").and_then(Value::as_i64);
    id.and_then(|id| i32::try_from(id).ok()).ok_or_else(|| {
        ChannelError::unavailable(
            "telegram sent an update without an id, which cannot be confirmed",
        )
    })
}
