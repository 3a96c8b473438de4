//! The gateway: a WebSocket over which Discord sends events. twilight-gateway implements the protocol (heartbeats,
//! RESUME, close codes). The loop, the order, the deadlines and the position in the session are ours. serenity's own
//! gateway cannot be read from outside its runner, and that runner starts a task per event, polls every half second, and
//! spins for up to a heartbeat after a close without a code.
//!
//! Discord expects no acknowledgement: it repeats a session's events from any sequence number that it still has. So we
//! remember the number of the last event that was *stored*, beyond a restart.

use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use twilight_gateway::queue::Queue;
use twilight_gateway::{ConfigBuilder, Intents, Message, Session, Shard, ShardId};

use super::DiscordDeadlines;
use super::call::token_not_accepted;
use crate::channels::{ChannelError, json};

/// Subscribed events: no member lists, no presences. Threads and servers are requested when a message is
/// sent there.
const INTENTS: Intents =
    Intents::GUILD_MESSAGES.union(Intents::DIRECT_MESSAGES).union(Intents::MESSAGE_CONTENT);

/// Maximum number of unreadable frames in a row before the link counts as broken.
const UNREADABLE_MAX: u32 = 20;

/// A position in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPosition {
    /// The bot that owns the session.
    pub bot: String,
    pub session: String,
    /// Sequence number of the last event that need not be repeated.
    pub seq: u64,
    pub url: String,
}

impl SessionPosition {
    /// Parses the result of [`Self::mark`]. None if it belongs to another bot.
    pub fn from_mark(bot: &str, mark: &str) -> Option<Self> {
        let mut parts = mark.splitn(4, ' ');
        let (owner, session) = (parts.next()?, parts.next()?);
        let (seq, url) = (parts.next()?.parse().ok()?, parts.next()?);
        let position =
            Self { bot: owner.to_owned(), session: session.to_owned(), seq, url: url.to_owned() };
        (owner == bot && is_gateway(url)).then_some(position)
    }

    pub fn mark(&self) -> String {
        format!("{} {} {} {}", self.bot, self.session, self.seq, self.url)
    }
}

/// Returns true for a WebSocket URL. The library panics at others.
pub(super) fn is_gateway(url: &str) -> bool {
    url.parse::<url::Url>()
        .is_ok_and(|url| matches!(url.scheme(), "ws" | "wss") && url.host_str().is_some())
}

/// A message of the link.
#[derive(Debug)]
pub(super) enum LinkMessage {
    /// A new session: earlier events are not sent.
    Ready(SessionPosition),
    /// All missed events have been sent.
    Resumed,
    /// The connection has ended. Another one is made to resume the session.
    Lost,
    /// Discord greets, but does not confirm that the session resumes. This is the last message.
    Unanswered,
    /// The session cannot be resumed. This is the last message.
    Forgotten,
    /// Discord demands a new session. This is the last message.
    Invalid,
    Event {
        name: String,
        data: Value,
        seq: u64,
    },
    /// An acknowledged heartbeat.
    Beat,
}

/// One gateway link. It resumes by itself, and ends with an error.
pub(super) struct Gateway {
    shard: Shard<AtOnce>,
    deadlines: DiscordDeadlines,
    bot: String,
    /// The link counts as dead if nothing arrives before this.
    until: Instant,
    unreadable: u32,
    /// There was no READY or RESUMED on this connection.
    is_awaited: bool,
    /// Discord greeted this connection, and we identified ourselves on it.
    is_greeted: bool,
    /// There is a session to resume.
    has_session: bool,
    /// An address that did not answer was given up already.
    has_fallen_back: bool,
    /// The session is gone. The library would begin another, without regard to the limits.
    is_over: bool,
}

/// A queue that lets each IDENTIFY pass at once: there is one shard, and the supervisor's back-off.
#[derive(Debug)]
struct AtOnce;

impl Queue for AtOnce {
    fn enqueue(&self, _shard: u32) -> oneshot::Receiver<()> {
        let (now, permit) = oneshot::channel();
        now.send(()).ok();
        permit
    }
}

/// The fields of every frame, borrowed from it.
#[derive(Deserialize)]
struct GatewayFrame<'a> {
    op: u8,
    #[serde(borrow, default)]
    t: Option<&'a str>,
    #[serde(default)]
    s: Option<u64>,
    #[serde(default)]
    d: Value,
}

#[derive(Deserialize)]
struct ReadyEvent {
    session_id: String,
    resume_gateway_url: String,
}

impl Gateway {
    /// Opens a link. `url` is the address that Discord gave us, and `from` the position to resume from.
    pub(super) fn open(
        token: &str,
        bot: &str,
        url: &str,
        from: Option<&SessionPosition>,
        deadlines: DiscordDeadlines,
    ) -> Self {
        let mut config = ConfigBuilder::new(token.to_owned(), INTENTS)
            .queue(AtOnce)
            // It sends only heartbeats.
            .ratelimit_messages(false)
            .proxy_url(url.trim_end_matches('/').to_owned());
        if let Some(from) = from {
            config = config
                .session(Session::new(from.seq, from.session.clone()))
                .resume_url(from.url.trim_end_matches('/').to_owned());
        }
        Self {
            shard: Shard::with_config(ShardId::ONE, config.build()),
            deadlines,
            bot: bot.to_owned(),
            until: Instant::now() + deadlines.ready,
            unreadable: 0,
            is_awaited: true,
            is_greeted: false,
            has_session: from.is_some(),
            has_fallen_back: false,
            is_over: false,
        }
    }

    /// Returns true while the confirmation of the session is missing.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Returns true if Discord was asked to resume a session, and has not confirmed it.
    pub(super) fn is_unresumed(&self) -> bool {
        self.is_awaited && self.is_greeted && self.has_session
    }

    /// Waits for the next message. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<LinkMessage, ChannelError> {
        if self.is_over {
            return std::future::pending().await;
        }
        loop {
            let Ok(received) = timeout_at(self.until, self.shard.next()).await else {
                if self.is_unresumed() {
                    self.is_over = true;
                    return Ok(LinkMessage::Unanswered);
                }
                return Err(ChannelError::unavailable("discord's gateway has fallen silent"));
            };
            match received {
                Some(Ok(Message::Text(text))) => {
                    let message = self.read(&text)?;
                    self.extend_deadline(message.as_ref());
                    if let Some(message) = message {
                        self.unreadable = 0;
                        return Ok(message);
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    let code = frame.map(|frame| frame.code);
                    if let Some(error) = code.and_then(fatal) {
                        return Err(error);
                    }
                    if code.is_some_and(|code| FORGOTTEN.contains(&code)) {
                        self.is_over = true;
                        return Ok(LinkMessage::Forgotten);
                    }
                    self.connect_anew()?;
                    return Ok(LinkMessage::Lost);
                }
                Some(Err(error)) => self.handle_error(&error)?,
                None => return Err(ChannelError::unavailable("discord's gateway has closed")),
            }
        }
    }

    /// Extends the deadline. Any frame keeps a confirmed link alive. Before that only missed events
    /// count: a gateway may acknowledge heartbeats forever and never confirm the session.
    fn extend_deadline(&mut self, message: Option<&LinkMessage>) {
        let DiscordDeadlines { ready, silence, .. } = self.deadlines;
        match message {
            _ if !self.is_awaited => self.until = Instant::now() + silence,
            Some(LinkMessage::Event { .. }) => self.until = Instant::now() + ready,
            _ => {}
        }
    }

    fn handle_error(
        &mut self,
        error: &twilight_gateway::error::ReceiveMessageError,
    ) -> Result<(), ChannelError> {
        use twilight_gateway::error::ReceiveMessageErrorType::Reconnect;
        self.unreadable += 1;
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        if matches!(error.kind(), Reconnect) {
            // The address for resuming may be gone. The library tries the usual one next.
            if !std::mem::replace(&mut self.has_fallen_back, true) {
                tracing::info!(%cause, "Cannot reach Discord's gateway, will try its other address");
                return Ok(());
            }
            return Err(ChannelError::unavailable(format!("discord's gateway: {error}: {cause}")));
        }
        tracing::warn!(%cause, "Discord's gateway sent an event that cannot be read");
        if self.unreadable >= UNREADABLE_MAX {
            return Err(ChannelError::unavailable("discord's gateway cannot be understood"));
        }
        Ok(())
    }

    /// Notes a new connection. Returns an error if the last one ended before the session was confirmed: the library
    /// would retry at once, and every attempt counts against the day's limit.
    fn connect_anew(&mut self) -> Result<(), ChannelError> {
        if std::mem::replace(&mut self.is_awaited, true) {
            return Err(ChannelError::unavailable("discord's gateway sent an invalid end of data"));
        }
        self.is_greeted = false;
        self.until = Instant::now() + self.deadlines.ready;
        Ok(())
    }

    /// Parses a frame. None if the library has handled it completely.
    fn read(&mut self, text: &str) -> Result<Option<LinkMessage>, ChannelError> {
        let deep;
        let frame = match serde_json::from_str::<GatewayFrame<'_>>(text) {
            Ok(frame) => frame,
            Err(_) => {
                let Ok(read) = json::read(text.as_bytes()) else { return Ok(None) };
                deep = read;
                let Ok(frame) = GatewayFrame::deserialize(&deep) else { return Ok(None) };
                frame
            }
        };
        Ok(match (frame.op, frame.t, frame.s, frame.d) {
            (0, Some("READY"), Some(seq), data) => {
                let Ok(ready) = ReadyEvent::deserialize(data) else { return Ok(None) };
                self.confirm();
                self.has_session = true;
                let (session, url) = (ready.session_id, ready.resume_gateway_url);
                Some(LinkMessage::Ready(SessionPosition {
                    bot: self.bot.clone(),
                    session,
                    seq,
                    url,
                }))
            }
            (0, Some("RESUMED"), ..) => {
                self.confirm();
                Some(LinkMessage::Resumed)
            }
            (0, Some(name), Some(seq), data) => {
                Some(LinkMessage::Event { name: name.to_owned(), data, seq })
            }
            (9, _, _, Value::Bool(false)) => {
                self.is_over = true;
                Some(LinkMessage::Invalid)
            }
            (10, ..) => {
                // A connection may also end without a close frame.
                if !std::mem::replace(&mut self.is_greeted, true) {
                    return Ok(None);
                }
                self.connect_anew()?;
                self.is_greeted = true;
                Some(LinkMessage::Lost)
            }
            // Before that, more missed events may be coming.
            (11, ..) if !self.is_awaited => Some(LinkMessage::Beat),
            _ => None,
        })
    }

    /// Notes a READY or RESUMED.
    fn confirm(&mut self) {
        (self.is_awaited, self.has_fallen_back) = (false, false);
    }
}

/// Close codes after which a session is gone: not authenticated, an invalid sequence number, or a session that
/// timed out. The library would try to resume it forever.
const FORGOTTEN: [u16; 3] = [4003, 4007, 4009];

/// Returns an error for close codes after which a new connection would end the same way.
fn fatal(code: u16) -> Option<ChannelError> {
    let reason = match code {
        4004 => return Some(token_not_accepted("Authentication failed")),
        4010..=4012 => "the bot is in too many servers for one connection",
        4013 => "the bot asked for events that Discord does not know; is this version too old?",
        4014 => {
            "the bot may not read messages yet: at https://discord.com/developers/applications \
             open your application, Bot, and switch on Message Content Intent; then run `peacrab reload`"
        }
        _ => return None,
    };
    Some(ChannelError::Closed(reason.to_owned()))
}
