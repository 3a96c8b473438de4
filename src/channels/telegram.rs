//! Telegram, by long polling. Updates are decoded in [`inbound`]; what a failed call means is in
//! `call`. An update is confirmed by asking for the next one, and that only after
//! `publish` has returned: nothing else here talks to the platform about it.

mod call;
mod files;
pub mod inbound;
pub mod offset;
mod outgoing;

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
    Channel, ChannelError, Drafts, FileContent, Found, GIVE_UP_AFTER, Limits, Markup, MediaSink,
    Sent, Unit,
};
use crate::bus::{Published, Publisher};
use crate::channels::hear::{self, Addressee, Event};
use crate::types::commands;
use crate::types::message::{Address, ChannelName, Hint, MediaRef, Outbound};

use call::{Api, CallError};
use inbound::{Decoded, Identity, ReadingContext};
use offset::Offset;

/// Telegram's limit, in UTF-16 units (Bot API, sendMessage).
const TEXT_MAX: usize = 4096;

/// Likewise under a file (Bot API, sendPhoto and its like).
const CAPTION_MAX: usize = 1024;

/// The largest file that a bot may send (Bot API, "Sending files"), in bytes.
const FILE_MAX: u64 = 50_000_000;

/// What is longer than that is easier to read as a file.
const MESSAGES_MAX: usize = 5;

/// What our chunks are written in.
const MARKUP: Markup = Markup::TelegramHtml;

/// A typing sign goes away after five seconds (Bot API, sendChatAction).
const TYPING_EVERY: Duration = Duration::from_secs(4);

/// A poll that ends sooner, with nothing, was not a long poll: something between us and Telegram
/// does not wait, and without a pause we would ask it thousands of times per second.
const EMPTY_POLL_MIN: Duration = Duration::from_secs(1);

/// How long to wait for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub connect: Duration,
    /// For a whole call but a poll.
    pub call: Duration,
    /// For all of a file, in or out.
    pub file: Duration,
    /// How long the server holds a poll open; whole seconds.
    pub poll: Duration,
    /// How much later than that its answer may come, before the link counts as dead.
    pub poll_grace: Duration,
    /// Until a file is asked for again that Telegram could not reach; each time longer.
    pub ask_again: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(20),
            // 50 MB at less than 2 Mbit/s; below the bound that deliveries have.
            file: Duration::from_secs(240),
            // Below the 30 s after which some routers forget a silent connection.
            poll: Duration::from_secs(25),
            // A half-open socket is noticed in 40 s.
            poll_grace: Duration::from_secs(15),
            ask_again: Duration::from_secs(2),
        }
    }
}

/// Telegram's short troubles are over by then; a chunk is sent at most three times.
const DOUBT_PAUSE: Duration = Duration::from_secs(10);

/// One chat may be written to once a second, a group 20 times a minute (Bot API FAQ, "My bot is
/// hitting limits").
const DRAFT_EVERY: Duration = Duration::from_secs(1);
const DRAFT_EVERY_IN_GROUPS: Duration = Duration::from_secs(3);

/// Who we are is asked for again with the first link after that: names and privacy mode are rarely
/// changed, and a poll that fails is no reason to ask.
const IDENTITY_TIME: Duration = Duration::from_secs(3600);

/// Commands are told when the link comes up; hearing is more urgent.
const COMMANDS_TIME_MAX: Duration = Duration::from_secs(5);

/// Presses that are answered at once; who presses when so many wait for Telegram is not told.
const ANSWERS_MAX: usize = 16;

/// One bot.
pub struct Telegram {
    api: Api,
    deadlines: Deadlines,
    /// Who we are, and when Telegram told. A mutex because a link may end and begin anew; it guards a
    /// few short names.
    me: Mutex<Option<(Identity, Instant)>>,
    /// Telegram has our commands.
    has_commands: AtomicBool,
    /// A mutex for the same reason.
    albums: Mutex<Albums>,
}

/// The albums that spoke to the bot lately, whichever link heard them.
#[derive(Default)]
struct Albums(VecDeque<Album>);

/// An album, by the name that it has in its chat.
#[derive(PartialEq, Eq)]
struct Album {
    chat: String,
    name: String,
}

/// Chats whose albums come at the same time, in a few messages each.
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

/// The album that an update belongs to.
fn album_of(update: &RawUpdate) -> Option<Album> {
    let message = update.get("message").or_else(|| update.get("edited_message"))?;
    let name = message.get("media_group_id")?.as_str()?.to_owned();
    Some(Album { chat: message.get("chat")?.get("id")?.to_string(), name })
}

/// A press that was taken in, and what became of it; nothing, if the button was none of ours.
struct Answer {
    query: String,
    published: Option<Published>,
}

/// An update before it is understood.
type RawUpdate = Value;

impl Telegram {
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Self::with_deadlines(config, Deadlines::default())
    }

    pub fn with_deadlines(config: &Config, deadlines: Deadlines) -> anyhow::Result<Self> {
        Ok(Self {
            api: Api::new(config, &deadlines)?,
            deadlines,
            me: Mutex::default(),
            has_commands: AtomicBool::new(false),
            albums: Mutex::default(),
        })
    }

    /// Who we are, as Telegram told lately.
    async fn identity(&self) -> Result<Identity, ChannelError> {
        let known = self.me.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((me, asked)) = known
            && asked.elapsed() < IDENTITY_TIME
        {
            return Ok(me);
        }
        let me: Identity = self
            .api
            .call(&GetMe::new(), self.deadlines.call)
            .await
            .map_err(CallError::while_asking)?;
        let told = Some((me.clone(), Instant::now()));
        *self.me.lock().unwrap_or_else(PoisonError::into_inner) = told;
        Ok(me)
    }

    /// Asks for updates; Telegram may wait `hold` for one, in whole seconds.
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
        self.api.call(&ask, deadline).await.map_err(CallError::while_asking)
    }

    /// Has Telegram list our commands, unless it does. Nothing depends on it.
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
        match listed.await.map_err(CallError::while_asking) {
            Ok(()) => self.has_commands.store(true, Ordering::Relaxed),
            Err(error) => tracing::info!(%error, "Telegram does not list our commands"),
        }
    }

    fn albums(&self) -> MutexGuard<'_, Albums> {
        self.albums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes updates in, and goes on after them: once this returns, they may be confirmed.
    async fn take_in(
        &self,
        updates: &[RawUpdate],
        offset: &mut Offset,
        bot: &Identity,
        publisher: &Publisher,
    ) -> Result<Vec<Answer>, ChannelError> {
        let (mut events, mut queries) = (Vec::new(), Vec::new());
        // One without an id cannot be confirmed, nor can what comes after it.
        for (update, id) in updates.iter().map_while(|it| Some((it, update_id(it).ok()?))) {
            let Decoded { event, query } = self.decode(update, bot, publisher.channel());
            events.push(event);
            queries.push(query);
            offset.advance(id, Utc::now());
        }
        let outcomes = hear::receive(publisher, events, offset.mark()).await?;
        let answers = queries.into_iter().zip(outcomes).filter_map(|(query, outcome)| {
            Some(Answer { query: query?, published: outcome.published() })
        });
        let answers = answers.collect();
        updates.iter().try_for_each(|update| update_id(update).map(drop))?;
        Ok(answers)
    }

    /// Decodes one update, and notes the album that addresses the bot in it.
    fn decode(&self, update: &RawUpdate, bot: &Identity, channel: &ChannelName) -> Decoded {
        let album = album_of(update);
        let known = album.as_ref().filter(|album| self.albums().0.contains(album));
        let album_name = known.map(|album| album.name.as_str());
        let context = ReadingContext { bot, channel, album: album_name, now: Utc::now() };
        let decoded = inbound::decode(update, &context);
        if let (Event::New(message), Some(album)) = (&decoded.event, album)
            && message.addressee == Addressee::Bot
        {
            self.albums().note(album);
        }
        decoded
    }
}

/// What `status` says of a link.
fn about(bot: &Identity) -> String {
    let name = &bot.username;
    if bot.can_read_all_group_messages {
        format!("@{name}")
    } else {
        format!("@{name}, sees only what speaks to it in groups (privacy mode)")
    }
}

#[async_trait]
impl Channel for Telegram {
    fn limits(&self) -> Limits {
        Limits {
            text_max: TEXT_MAX,
            unit: Unit::Utf16,
            caption_max: CAPTION_MAX,
            typing_every: Some(TYPING_EVERY),
            doubt_pause: DOUBT_PAUSE,
            give_up_after: GIVE_UP_AFTER,
            drafts: Drafts::Edited { every: DRAFT_EVERY, every_in_groups: DRAFT_EVERY_IN_GROUPS },
            markup: MARKUP,
            file_max: FILE_MAX,
            messages_max: MESSAGES_MAX,
            reacts: false,
            replies: true,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let bot = self.identity().await?;
        let mark = publisher.mark().await?;
        let mut offset = Offset::from_mark(bot.id, mark);
        // Beside the loop: nobody waits for what only a presser sees.
        let mut answers = FuturesUnordered::new();
        // The first poll is answered at once: only that shows that the link goes.
        let mut hold = Duration::ZERO;
        loop {
            let asked = Instant::now();
            let updates = beside(self.poll(offset.ask(Utc::now()), hold), &mut answers).await?;
            publisher.heard_byte();
            if hold.is_zero() {
                publisher.link_up(about(&bot));
            }
            let taken = self.take_in(&updates, &mut offset, &bot, publisher);
            for Answer { query, published } in beside(taken, &mut answers).await? {
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

    /// A bot cannot look at what it has sent.
    async fn find(
        &self,
        _message: &Outbound,
        _since: DateTime<Utc>,
    ) -> Result<Found, ChannelError> {
        Ok(Found::Unknowable)
    }
}

/// Does the `work`, and meanwhile the `others` as far as they get.
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
