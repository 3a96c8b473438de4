//! Discord. What comes over its gateway is in [`gateway`] and `hearing`, what a message means to us in
//! [`inbound`], what goes out in `sending`, and what a failed call means in `call`.
//!
//! Discord is told nothing when a message has been kept: we remember how far in the session's
//! sequence we have got, and go on from there, also after a restart. Where the session is gone, what
//! was missed is read back from the places that have spoken to the bot.

mod call;
mod commands;
mod fetching;
pub mod gateway;
mod hearing;
pub mod inbound;
mod sending;
mod spots;
pub mod wire;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serenity::http::Route;
use serenity::model::id;
use tokio::sync::OnceCell;
use tokio::time::timeout;

pub use super::config::{DiscordConfig as Config, DiscordThreads as Threads};
use super::{
    Channel, ChannelError, Drafts, FileContent, Found, Limits, Markup, MediaSink, Sent, Unit,
};
use crate::bus::{PublishError, Publisher};
use crate::message::{Address, Hint, Line, MediaRef, MessageId, Outbound};

use call::{Api, CallError};
use gateway::{Gateway, Point, Told};
use hearing::Ear;
use inbound::Identity;
use spots::Spots;
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

/// Events that are held while what was missed is read back; then nothing more is taken from the link.
const HELD_MAX: usize = 1000;

/// Commands can be written too, so nobody waits for long until they are listed.
const COMMANDS_TIME_MAX: Duration = Duration::from_secs(10);

/// How long to wait for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    pub connect: Duration,
    /// For a whole call, but an upload's.
    pub call: Duration,
    /// From a connection to the gateway to its word that the session goes.
    pub ready: Duration,
    /// How long a link may say nothing at all: longer than from one heartbeat to the next, and less
    /// than a minute.
    pub silence: Duration,
    /// The longest wait before a new session, when one has become invalid.
    pub identify: Duration,
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
    spots: Spots,
    /// How far we have got, for the next link. A mutex, since a listener that was dropped leaves it to
    /// the next one; it guards a few words.
    point: Mutex<Option<Point>>,
}

#[derive(Deserialize)]
struct GatewayBot {
    url: String,
    #[serde(default)]
    session_start_limit: Option<StartLimit>,
}

#[derive(Deserialize)]
struct StartLimit {
    remaining: u64,
    reset_after: u64,
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
            spots: Spots::default(),
            point: Mutex::default(),
        })
    }

    async fn get_me(&self) -> Result<Identity, ChannelError> {
        let me: User = self.api.get(Route::UserMe, &[]).await.map_err(CallError::while_asking)?;
        Ok(Identity { id: me.id, name: me.username })
    }

    /// Who we are, asked for once.
    async fn identity(&self) -> Result<&Identity, ChannelError> {
        self.me.get_or_try_init(|| self.get_me()).await
    }

    async fn gateway_url(&self, resumes: bool) -> Result<String, ChannelError> {
        let found = self.api.get::<GatewayBot>(Route::GatewayBot, &[]).await;
        let GatewayBot { url, session_start_limit } = found.map_err(CallError::while_asking)?;
        match session_start_limit {
            // Beyond, Discord resets the bot's token.
            Some(StartLimit { remaining: 0, reset_after }) if !resumes => {
                return Err(ChannelError::Unavailable {
                    after: Some(Duration::from_millis(reset_after)),
                    reason: "discord lets the bot begin no more sessions today".to_owned(),
                });
            }
            _ => {}
        }
        if !gateway::is_gateway(&url) {
            let reason = format!("discord's gateway is at no address: {url}");
            return Err(ChannelError::unavailable(reason));
        }
        Ok(url)
    }

    /// Where to go on: where the last link ended, or a daemon before this one.
    async fn last_point(
        &self,
        bot: &Identity,
        publisher: &Publisher,
    ) -> Result<Option<Point>, ChannelError> {
        let known = self.point().clone();
        if known.is_some() {
            return Ok(known);
        }
        let mark = publisher.mark().await.map_err(|error| not_kept(&error))?;
        Ok(mark.and_then(|(mark, _)| Point::from_mark(&bot.id, &mark)))
    }

    fn point(&self) -> std::sync::MutexGuard<'_, Option<Point>> {
        self.point.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how far we have got; `durable` too, for a daemon after this one.
    async fn get_to(
        &self,
        seq: u64,
        durable: bool,
        publisher: &Publisher,
    ) -> Result<(), ChannelError> {
        let mark = {
            let mut point = self.point();
            let Some(point) = point.as_mut() else { return Ok(()) };
            point.seq = seq;
            point.mark()
        };
        if durable {
            publisher.set_mark(mark).await.map_err(|error| not_kept(&error))?;
        }
        Ok(())
    }

    /// A new session has begun: reads back what was missed before it, while the link stays alive.
    async fn begin(
        &self,
        ear: &Ear<'_>,
        link: &mut Gateway,
        point: Point,
    ) -> Result<VecDeque<Told>, ChannelError> {
        let mut held = VecDeque::new();
        let mut reading_back = pin!(ear.catch_up());
        loop {
            tokio::select! {
                done = &mut reading_back => break done?,
                told = link.next(), if held.len() < HELD_MAX => match told? {
                    // Whoever presses a button is answered within three seconds or not at all.
                    Told::Event { name, data, .. } if name == hearing::INTERACTION => {
                        ear.hear(&name, &data).await?;
                    }
                    told => held.push_back(told),
                },
            }
        }
        // Not before: whoever goes on in this session is not told what came before it.
        ear.publisher.set_mark(point.mark()).await.map_err(|error| not_kept(&error))?;
        *self.point() = Some(point);
        Ok(held)
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
            drafts: Drafts::Edited { every: DRAFT_EVERY, every_in_groups: DRAFT_EVERY },
            markup: Markup::Discord,
            file_max: FILE_MAX,
            messages_max: MESSAGES_MAX,
            reacts: true,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let bot = self.get_me().await?;
        self.me.set(bot.clone()).ok();
        publisher.heard_byte();
        let from = self.last_point(&bot, publisher).await?;
        let url = self.gateway_url(from.is_some()).await?;
        *self.point() = from.clone();
        let telling = self.told_commands.get_or_try_init(|| self.tell_commands());
        match timeout(COMMANDS_TIME_MAX, telling).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "Could not tell Discord the commands"),
            Err(_) => tracing::warn!("Could not tell Discord the commands in time"),
        }
        let about = format!("@{}", bot.name);
        let ear = Ear { discord: self, publisher, bot: &bot };
        let account = (self.api.token(), bot.id.as_str());
        let mut link = Gateway::open(account, &url, from.as_ref(), self.deadlines);
        let mut held = VecDeque::new();
        loop {
            let told = match held.pop_front() {
                Some(told) => told,
                None => link.next().await?,
            };
            publisher.heard_byte();
            match told {
                Told::Ready(point) => {
                    publisher.link_up(about.clone());
                    held.extend(self.begin(&ear, &mut link, point).await?);
                }
                Told::Resumed => publisher.link_up(about.clone()),
                Told::Event { name, data, seq } => {
                    let kept = ear.hear(&name, &data).await?;
                    self.get_to(seq, kept, publisher).await?;
                }
                Told::Forgotten => {
                    *self.point() = None;
                    publisher.set_mark(String::new()).await.map_err(|error| not_kept(&error))?;
                    return Err(ChannelError::unavailable("discord has forgotten the session"));
                }
                Told::Beat => {}
            }
        }
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

fn not_kept(error: &PublishError) -> ChannelError {
    ChannelError::unavailable(error.to_string())
}
