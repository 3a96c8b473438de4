//! Receives a link's envelopes: each is decoded, stored, and then acknowledged. Missed events are read in
//! parallel.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use chrono::Utc;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use slack_morphism::api::{SlackApiChatPostEphemeralRequest, SlackApiConversationsHistoryRequest};
use slack_morphism::{SlackMessageContent, SlackUserId};
use tokio::time::timeout;

use super::Slack;
use super::interaction;
use super::progress::SlackProgress;
use super::sending::SlackAddress;
use super::socket::{Envelope, Socket, SocketFrame, refused};
use crate::bus::{PublishError, Publisher};
use crate::channels::routing::{self, InboundEvent};
use crate::channels::slack::inbound::{self, SlackIdentity, SlackReadingContext};
use crate::channels::{ChannelError, backlog};
use crate::replies;
use crate::types::message::{self, ChatKind, Inbound};

/// Reasons for which Slack routinely ends a link.
const ORDINARY: &[&str] = &["warning", "refresh_requested", "socket_refresh_requested", ""];

/// Maximum number of ephemeral messages being sent. A person who presses faster gets none.
const EPHEMERALS_MAX: usize = 16;

/// Maximum number of remembered chats with the bot. When it is reached, all are forgotten and requested again.
const CHATS_MAX: usize = 1000;

/// An ephemeral message to one person.
struct EphemeralMessage {
    at: message::Address,
    to: message::SenderId,
    text: &'static str,
}

/// The immediate answer to a person's action.
enum ImmediateReply {
    None,
    /// Sent with the acknowledgement.
    Text(&'static str),
    Ephemeral(EphemeralMessage),
}

/// The listener of one link.
pub(super) struct SlackListener<'a> {
    pub(super) slack: &'a Slack,
    pub(super) bot: &'a SlackIdentity,
    pub(super) publisher: &'a Publisher,
}

impl SlackListener<'_> {
    /// Receives envelopes until Slack wants a new link.
    pub(super) async fn receive(&self, socket: &mut Socket) -> Result<(), ChannelError> {
        let note_bytes = || self.publisher.note_bytes();
        self.note_missed().await?;
        let deadlines = self.slack.deadlines;
        let mut reading = pin!(backlog::read_round(self, Duration::ZERO));
        // Missed events come first, but delay nobody for long.
        if let Ok(read) = timeout(deadlines.catch_up, &mut reading).await {
            read?;
            reading.set(backlog::read_round(self, deadlines.retry_pause));
        }
        let mut ephemerals = FuturesUnordered::new();
        loop {
            let frame = tokio::select! {
                read = &mut reading, if !self.slack.backlog.is_empty() => {
                    read?;
                    reading.set(backlog::read_round(self, deadlines.retry_pause));
                    continue;
                }
                Some(()) = ephemerals.next(), if !ephemerals.is_empty() => continue,
                frame = socket.next(&note_bytes) => frame?,
            };
            match frame {
                SocketFrame::Disconnect(reason) if ORDINARY.contains(&reason.as_str()) => {
                    return Ok(());
                }
                SocketFrame::Disconnect(reason) => return Err(refused(&reason)),
                SocketFrame::Envelope(envelope) => {
                    let answer = self.accept(&envelope).await?;
                    let (text, ephemeral) = match answer {
                        ImmediateReply::None => (None, None),
                        ImmediateReply::Text(text) => (Some(text), None),
                        ImmediateReply::Ephemeral(message) => (None, Some(message)),
                    };
                    socket.acknowledge(&envelope.id, text).await?;
                    if envelope.kind == "events_api" {
                        self.note_received(&envelope.payload["event"]).await?;
                    }
                    if let Some(ephemeral) = ephemeral.filter(|_| ephemerals.len() < EPHEMERALS_MAX)
                    {
                        ephemerals.push(self.send_ephemeral(ephemeral));
                    }
                }
            }
        }
    }

    /// Notes durably where events may have been missed: new events do not prove that there were none.
    async fn note_missed(&self) -> Result<(), PublishError> {
        if !self.progress().is_restored {
            let mark = self.publisher.mark().await?;
            let mut progress = self.progress();
            progress.is_restored = true;
            if let Some((mark, _)) = mark {
                let (bot, channel) = (&self.bot.user, self.publisher.channel());
                progress.restore(&mark, bot, channel, &self.slack.backlog);
            }
        }
        let until = self.progress().until();
        backlog::note_missed(self, until).await?;
        self.set_mark().await
    }

    /// Notes the time of an acknowledged event.
    async fn note_received(&self, event: &Value) -> Result<(), PublishError> {
        let ts = event["event_ts"].as_str().or(event["ts"].as_str()).unwrap_or_default();
        if self.progress().note_event(ts) { self.set_mark().await } else { Ok(()) }
    }

    pub(super) async fn set_mark(&self) -> Result<(), PublishError> {
        let mark = self.progress().mark(&self.bot.user, &self.slack.backlog);
        self.publisher.set_mark(mark).await
    }

    fn progress(&self) -> MutexGuard<'_, SlackProgress> {
        self.slack.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts an envelope. Once this returns, it may be acknowledged.
    async fn accept(&self, envelope: &Envelope) -> Result<ImmediateReply, PublishError> {
        let payload = &envelope.payload;
        match envelope.kind.as_str() {
            "events_api" => {
                let event = payload.get("event").unwrap_or(&Value::Null);
                routing::receive_one(self.publisher, self.decode(event).await).await?;
                Ok(ImmediateReply::None)
            }
            "slash_commands" => {
                let names = BTreeMap::new();
                match interaction::decode_slash(payload, &self.context(&names), Utc::now()) {
                    InboundEvent::Command(inbound) => {
                        self.command(inbound).await.map(ImmediateReply::Text)
                    }
                    event => {
                        routing::receive_one(self.publisher, event).await?;
                        Ok(ImmediateReply::None)
                    }
                }
            }
            "interactive" => {
                let names = self.names(payload).await;
                match interaction::decode_press(payload, &self.context(&names), Utc::now()) {
                    InboundEvent::Pressed(inbound) => self.press(inbound).await,
                    _ => Ok(ImmediateReply::None),
                }
            }
            _ => Ok(ImmediateReply::None),
        }
    }

    /// Accepts a slash command. A person may give it in a chat without the bot, where the bot could not answer.
    async fn command(&self, mut inbound: Inbound) -> Result<&'static str, PublishError> {
        match self.is_here(&inbound.from).await {
            Some(true) => {}
            Some(false) => return Ok(replies::COMMAND_ELSEWHERE),
            // A private chat of two people looks like the bot's own.
            None => inbound.chat_kind = ChatKind::Group,
        }
        let outcome = routing::receive_one(self.publisher, InboundEvent::Command(inbound)).await?;
        Ok(outcome.published().map_or(replies::COMMAND_NOT_ALLOWED, routing::reply_to_command))
    }

    /// Returns true if the bot is in a chat. None if Slack does not answer in time.
    async fn is_here(&self, at: &message::Address) -> Option<bool> {
        let own = || self.slack.own_chats.lock().unwrap_or_else(PoisonError::into_inner);
        if own().contains(&at.chat) {
            return Some(true);
        }
        let target = SlackAddress::of(at).ok()?;
        let request =
            SlackApiConversationsHistoryRequest::new().with_channel(target.channel).with_limit(1);
        let lookup = self.slack.api.call::<_, Value>(&request);
        match timeout(self.slack.deadlines.names, lookup).await.ok()? {
            Ok(_) => {
                let mut own = own();
                if own.len() >= CHATS_MAX {
                    own.clear();
                }
                own.insert(at.chat.clone());
                Some(true)
            }
            Err(error) => {
                error.is_refused_with(&["channel_not_found", "not_in_channel"]).then_some(false)
            }
        }
    }

    pub(super) async fn decode(&self, event: &Value) -> InboundEvent {
        let names = self.names(event).await;
        inbound::decode(event, &self.context(&names))
    }

    async fn names(&self, event: &Value) -> BTreeMap<String, String> {
        let (slack, people) = (self.slack, inbound::people(event));
        slack.names.of(&people, &slack.api, slack.deadlines.names).await
    }

    fn context<'a>(&'a self, names: &'a BTreeMap<String, String>) -> SlackReadingContext<'a> {
        let (bot, channel) = (self.bot, self.publisher.channel());
        SlackReadingContext { bot, channel, threads: self.slack.threads, names }
    }

    /// Accepts a pressed button. A person who may not press it gets an explanation.
    async fn press(&self, inbound: Inbound) -> Result<ImmediateReply, PublishError> {
        let (at, to) = (inbound.from.clone(), inbound.cause.sender().id.clone());
        let outcome = routing::receive_one(self.publisher, InboundEvent::Pressed(inbound)).await?;
        let text = outcome.published().and_then(routing::reply_to_press);
        Ok(text.map_or(ImmediateReply::None, |text| {
            ImmediateReply::Ephemeral(EphemeralMessage { at, to, text })
        }))
    }

    async fn send_ephemeral(&self, ephemeral: EphemeralMessage) {
        let EphemeralMessage { at, to, text } = ephemeral;
        let Ok(target) = SlackAddress::of(&at) else { return };
        let content = SlackMessageContent::new().with_text(text.to_owned());
        let to = SlackUserId(to.as_str().to_owned());
        let request = SlackApiChatPostEphemeralRequest::new(target.channel, to, content)
            .opt_thread_ts(target.thread);
        if let Err(error) = self.slack.api.call::<_, Value>(&request).await {
            tracing::debug!(%at, ?error, "Could not send a private note");
        }
    }
}
