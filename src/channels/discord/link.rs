//! One gateway link from beginning to end, and the position for the next one: in a session's sequence, and
//! in time, in case the session is gone.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use super::Discord;
use super::call::DiscordCallError;
use super::endpoints::Endpoint;
use super::inbound::DiscordIdentity;
use crate::bus::Publisher;
use crate::channels::ChannelError;
use crate::channels::backlog::{self, Backlog, Position, Unread};
use crate::channels::discord::events::{self, DiscordListener};
use crate::channels::discord::gateway::{self, Gateway, LinkMessage, SessionPosition};
use crate::types::message::{Address, ChannelName};

/// Maximum number of events that are held while others are accepted. After that the link is not read.
const HELD_MAX: usize = 1000;

/// Commands can also be typed, so their registration must not take long.
const COMMANDS_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum age of the durable mark. Events of that time are read once more after a crash.
const MARK_EVERY: Duration = Duration::from_secs(60);

/// Links in a row that ended before Discord resumed the session, until it is given up. With the
/// supervisor's pauses that takes a minute or two; Discord itself keeps a session for a few.
const UNRESUMED_MAX: u32 = 8;

/// Prefix of a mark that has a time and no session.
const NO_SESSION: &str = "since";

/// Prefix of the last word of a mark if there are channels to read back.
const UNREAD: &str = "unread=";

/// The position in Discord's events.
#[derive(Default)]
pub(super) struct EventPosition {
    point: Option<SessionPosition>,
    /// All messages before this time were received. None if that is unknown.
    pub(super) until: Option<DateTime<Utc>>,
    /// Time at which the durable mark was set.
    marked: Option<Instant>,
    /// Links in a row that did not resume the session.
    unresumed: u32,
}

impl EventPosition {
    fn mark(&self, backlog: &Backlog) -> String {
        let point =
            self.point.as_ref().map_or_else(|| NO_SESSION.to_owned(), SessionPosition::mark);
        let Some(until) = self.until else { return point };
        let mark = format!("{point} {}", until.timestamp_millis());
        let unread = backlog.entries().into_iter().map(|(at, unread)| {
            let until = unread.until.map(|until| until.timestamp_millis().to_string());
            // A thread is a channel.
            let place = at.thread.as_ref().map_or(at.chat.as_str(), |thread| thread.as_str());
            format!("{place}:{}:{}", unread.after.0, until.unwrap_or_default())
        });
        let unread: Vec<_> = unread.collect();
        if unread.is_empty() { mark } else { format!("{mark} {UNREAD}{}", unread.join(",")) }
    }

    /// Parses a mark that was set at `at`. Older marks have no time. Unread channels go to the backlog.
    fn from_mark(
        bot: &str,
        mark: &str,
        at: DateTime<Utc>,
        channel: &ChannelName,
        backlog: &Backlog,
    ) -> Self {
        let (mark, unread) = match mark.rsplit_once(' ') {
            Some((mark, last)) if last.starts_with(UNREAD) => (mark, &last[UNREAD.len()..]),
            _ => (mark, ""),
        };
        for (place, unread) in unread.split(',').filter_map(read_unread) {
            let at = Address { channel: channel.clone(), chat: place.into(), thread: None };
            backlog.note(at, unread);
        }
        let timed = mark.rsplit_once(' ').and_then(|(point, until)| {
            Some((point, DateTime::from_timestamp_millis(until.parse().ok()?)?))
        });
        let (point, until) = timed.unwrap_or((mark, at));
        let point = SessionPosition::from_mark(bot, point);
        Self { point, until: Some(until), ..Self::default() }
    }
}

/// Parses an unread channel in a mark.
fn read_unread(mark: &str) -> Option<(&str, Unread)> {
    let mut parts = mark.split(':');
    let (place, after, until) = (parts.next()?, parts.next()?, parts.next()?);
    let until = until.parse().ok().and_then(DateTime::from_timestamp_millis);
    Some((place, Unread { after: Position(after.to_owned()), cursor: None, until }))
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

/// A link, and its messages that are not accepted yet.
struct Reader {
    link: Gateway,
    held: VecDeque<LinkMessage>,
}

impl Reader {
    /// Awaits `work` while the link is kept alive. Messages of the link are held meanwhile.
    async fn during<T>(
        &mut self,
        listener: &DiscordListener<'_>,
        work: impl Future<Output = Result<T, ChannelError>>,
    ) -> Result<T, ChannelError> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                message = self.link.next(), if self.held.len() < HELD_MAX => match message? {
                    // A pressed button is answered within three seconds or not at all.
                    LinkMessage::Event { name, data, .. } if name == events::INTERACTION => {
                        Box::pin(listener.receive(&name, &data)).await?;
                    }
                    message => self.held.push_back(message),
                },
            }
        }
    }
}

impl Discord {
    /// Listens until the link ends.
    pub(super) async fn keep_listening(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let bot = self.get_me().await?;
        self.me.set(bot.clone()).ok();
        publisher.note_bytes();
        let from = self.last_point(&bot, publisher).await?;
        let url = self.gateway_url(from.is_some()).await?;
        let listener = DiscordListener { discord: self, publisher, bot: &bot };
        let token = self.api.token();
        let link = Gateway::open(token, &bot.id, &url, from.as_ref(), self.deadlines);
        let mut reader = Reader { link, held: VecDeque::new() };
        // The future is large: it holds the calls that are made meanwhile.
        let ended = Box::pin(self.follow(&listener, &mut reader)).await;
        if reader.link.is_awaited() {
            // The address for resuming does not answer.
            if let Some(point) = &mut self.progress().point {
                point.url = url;
            }
        }
        if reader.link.is_unresumed() {
            self.note_unresumed(publisher).await?;
        }
        ended
    }

    /// Gives the session up after too many failures in a row to resume it.
    async fn note_unresumed(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let count = {
            let mut progress = self.progress();
            progress.unresumed += 1;
            progress.unresumed
        };
        if count < UNRESUMED_MAX {
            return Ok(());
        }
        tracing::warn!(count, "Discord does not resume the session, will start a new one");
        self.forget_session(publisher).await
    }

    /// Accepts the link's messages in order.
    async fn follow(
        &self,
        listener: &DiscordListener<'_>,
        reader: &mut Reader,
    ) -> Result<(), ChannelError> {
        let DiscordListener { publisher, bot, .. } = *listener;
        let about = format!("@{}", bot.name);
        let mut reading = Box::pin(backlog::read_round(listener, Duration::ZERO));
        let mut registering = Box::pin(self.register_commands_once());
        let mut has_tried_to_register = false;
        let mut is_renewed = false;
        loop {
            let message = match reader.held.pop_front() {
                Some(message) => message,
                None => tokio::select! {
                    message = reader.link.next() => message?,
                    read = &mut reading, if !self.backlog.is_empty() => {
                        read?;
                        reading.set(backlog::read_round(listener, self.deadlines.retry_pause));
                        continue;
                    }
                    () = &mut registering, if !has_tried_to_register => {
                        has_tried_to_register = true;
                        continue;
                    }
                },
            };
            publisher.note_bytes();
            match message {
                LinkMessage::Ready(point) => {
                    self.progress().unresumed = 0;
                    publisher.link_up(about.clone());
                    let begun = Utc::now();
                    // A read that began earlier does not know about the events missed since.
                    reading.set(backlog::read_round(listener, Duration::ZERO));
                    let until = self.progress().until;
                    let noted = async { Ok(backlog::note_missed(listener, until).await?) };
                    reader.during(listener, noted).await?;
                    // Missed messages come first, but delay nobody for long.
                    let first = timeout(self.deadlines.catch_up, &mut reading);
                    let is_done =
                        async { first.await.map_or(Ok(false), |read| read.map(|()| true)) };
                    if reader.during(listener, is_done).await? {
                        reading.set(backlog::read_round(listener, self.deadlines.retry_pause));
                    }
                    // Not earlier: a daemon that resumes this session does not get the events before it.
                    let mark = {
                        let mut progress = self.progress();
                        (progress.point, progress.until) = (Some(point), Some(begun));
                        progress.marked = Some(Instant::now());
                        progress.mark(&self.backlog)
                    };
                    publisher.set_mark(mark).await?;
                }
                LinkMessage::Resumed => {
                    self.progress().unresumed = 0;
                    publisher.link_up(about.clone());
                    self.note_all_received(publisher).await?;
                }
                LinkMessage::Event { name, data, seq } => {
                    let receiving = Box::pin(listener.receive(&name, &data));
                    let kept = reader.during(listener, receiving).await?;
                    self.note_sequence(seq, kept, publisher).await?;
                }
                LinkMessage::Beat => self.note_all_received(publisher).await?,
                LinkMessage::Invalid if !is_renewed => {
                    is_renewed = true;
                    publisher.link_lost("discord wants a new session");
                    self.forget_session(publisher).await?;
                    // As Discord demands (Gateway, resuming): clients that lost their sessions together
                    // must not return together.
                    sleep(self.deadlines.identify.mul_f64(fastrand::f64())).await;
                    let url = self.gateway_url(false).await?;
                    let token = self.api.token();
                    reader.link = Gateway::open(token, &bot.id, &url, None, self.deadlines);
                    reader.held.clear();
                }
                LinkMessage::Lost => {
                    publisher.link_lost("discord's gateway has ended the connection")
                }
                LinkMessage::Unanswered => {
                    self.forget_session(publisher).await?;
                    return Err(ChannelError::unavailable(
                        "discord does not answer the request to resume the session",
                    ));
                }
                LinkMessage::Invalid | LinkMessage::Forgotten => {
                    self.forget_session(publisher).await?;
                    return Err(ChannelError::unavailable("discord has forgotten the session"));
                }
            }
        }
    }

    /// Registers our commands, if they differ. The link does not wait for that.
    async fn register_commands_once(&self) {
        let registering = self.registered_commands.get_or_try_init(|| self.register_commands());
        match timeout(COMMANDS_TIME_MAX, registering).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "Could not register the commands at Discord"),
            Err(_) => tracing::warn!("Could not register the commands at Discord in time"),
        }
    }

    pub(super) async fn gateway_url(&self, resumes: bool) -> Result<String, ChannelError> {
        let found = self.api.get::<GatewayBot>(Endpoint::GatewayBot, &[]).await;
        let GatewayBot { url, session_start_limit } =
            found.map_err(DiscordCallError::while_asking)?;
        match session_start_limit {
            // Beyond this limit Discord resets the bot's token.
            Some(StartLimit { remaining: 0, reset_after }) if !resumes => {
                return Err(ChannelError::Unavailable {
                    after: Some(Duration::from_millis(reset_after)),
                    reason: "discord allows the bot no more new sessions today".to_owned(),
                });
            }
            _ => {}
        }
        if !gateway::is_gateway(&url) {
            let reason = format!("discord's gateway has an invalid address: {url}");
            return Err(ChannelError::unavailable(reason));
        }
        Ok(url)
    }

    /// Returns the position of the last link, or of an earlier daemon.
    async fn last_point(
        &self,
        bot: &DiscordIdentity,
        publisher: &Publisher,
    ) -> Result<Option<SessionPosition>, ChannelError> {
        {
            let progress = self.progress();
            if progress.point.is_some() || progress.until.is_some() {
                return Ok(progress.point.clone());
            }
        }
        let mark = publisher.mark().await?;
        let Some((mark, at)) = mark else { return Ok(None) };
        let channel = publisher.channel();
        let position = EventPosition::from_mark(&bot.id, &mark, at, channel, &self.backlog);
        let point = position.point.clone();
        *self.progress() = position;
        Ok(point)
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, EventPosition> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the sequence number. If its event was `kept`, also durably for the next daemon.
    async fn note_sequence(
        &self,
        seq: u64,
        kept: bool,
        publisher: &Publisher,
    ) -> Result<(), ChannelError> {
        if let Some(point) = &mut self.progress().point {
            point.seq = seq;
        }
        self.mark(kept, publisher).await
    }

    /// Notes that all messages up to now were received. An event does not prove that: more missed events
    /// may follow.
    async fn note_all_received(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        self.progress().until = Some(Utc::now());
        self.mark(false, publisher).await
    }

    /// Sets the durable mark, at once or if it is old.
    pub(super) async fn mark(
        &self,
        at_once: bool,
        publisher: &Publisher,
    ) -> Result<(), ChannelError> {
        let mark = {
            let mut progress = self.progress();
            let is_old = progress.marked.is_none_or(|marked| marked.elapsed() >= MARK_EVERY);
            if progress.point.is_none() || !(at_once || is_old) {
                return Ok(());
            }
            progress.marked = Some(Instant::now());
            progress.mark(&self.backlog)
        };
        Ok(publisher.set_mark(mark).await?)
    }

    /// Forgets the session, but not the time up to which everything was received.
    async fn forget_session(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let mark = {
            let mut progress = self.progress();
            (progress.point, progress.unresumed) = (None, 0);
            progress.mark(&self.backlog)
        };
        Ok(publisher.set_mark(mark).await?)
    }
}
