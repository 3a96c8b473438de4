//! What comes on a link: each envelope is understood, kept, and then acknowledged. What was missed
//! before is looked up beside it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::PoisonError;

use chrono::Utc;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use slack_morphism::api::{SlackApiChatPostEphemeralRequest, SlackApiConversationsHistoryRequest};
use slack_morphism::{SlackMessageContent, SlackUserId};
use tokio::time::timeout;

use super::Slack;
use super::interaction;
use super::sending::Spot;
use super::socket::{Envelope, Frame, Socket, refused};
use crate::bus::{PublishError, Published, Publisher};
use crate::channels::ChannelError;
use crate::channels::slack::inbound::{self, Identity, Line, Reading, Scene, Speaks};
use crate::people::Groups;
use crate::replies;
use crate::types::message::{self, Inbound, Place};

/// Reasons for which Slack ends a link now and then by itself.
const ORDINARY: &[&str] = &["warning", "refresh_requested", "socket_refresh_requested", ""];

/// Private words that may be on their way at once; whoever presses still faster gets none.
const WHISPERS_MAX: usize = 16;

/// Who changes what they said longer ago is not thereby speaking to the bot.
const CHANGE_AGE_MAX: chrono::Duration = chrono::Duration::hours(1);

/// Chats that are known to have the bot in them; beyond, they are learnt again.
const CHATS_MAX: usize = 1000;

/// What only one person is to see.
struct Whisper {
    at: message::Address,
    to: message::SenderId,
    words: &'static str,
}

/// What whoever did something is told of it at once.
enum Answer {
    None,
    /// Together with the acknowledgement.
    Words(&'static str),
    Whisper(Whisper),
}

/// The ears of one link.
pub(super) struct Ears<'a> {
    pub(super) slack: &'a Slack,
    pub(super) bot: &'a Identity,
    pub(super) publisher: &'a Publisher,
}

impl Ears<'_> {
    /// Hears until Slack wants a new link.
    pub(super) async fn hear(&self, socket: &mut Socket) -> Result<(), ChannelError> {
        let heard = || self.publisher.heard_byte();
        let mut catching_up = pin!(self.catch_up());
        // What was missed comes first, but holds nobody up.
        let first = timeout(self.slack.deadlines.catch_up, &mut catching_up).await;
        let mut caught_up = first.is_ok();
        let mut whispers = FuturesUnordered::new();
        loop {
            let frame = tokio::select! {
                () = &mut catching_up, if !caught_up => {
                    caught_up = true;
                    continue;
                }
                Some(()) = whispers.next(), if !whispers.is_empty() => continue,
                frame = socket.next(&heard) => frame?,
            };
            match frame {
                Frame::Disconnect(reason) if ORDINARY.contains(&reason.as_str()) => return Ok(()),
                Frame::Disconnect(reason) => return Err(refused(&reason)),
                Frame::Envelope(envelope) => {
                    let answer = self.accept(&envelope).await?;
                    let (words, whisper) = match answer {
                        Answer::None => (None, None),
                        Answer::Words(words) => (Some(words), None),
                        Answer::Whisper(whisper) => (None, Some(whisper)),
                    };
                    socket.acknowledge(&envelope.id, words).await?;
                    if envelope.kind == "events_api" {
                        self.heard_until(&envelope.payload["event"]).await?;
                    }
                    if let Some(whisper) = whisper.filter(|_| whispers.len() < WHISPERS_MAX) {
                        whispers.push(self.whisper(whisper));
                    }
                }
            }
        }
    }

    /// Once this returns, the envelope may be acknowledged.
    async fn accept(&self, envelope: &Envelope) -> Result<Answer, PublishError> {
        let payload = &envelope.payload;
        match envelope.kind.as_str() {
            "events_api" => {
                let event = payload.get("event").unwrap_or(&Value::Null);
                self.accept_event(event).await?;
                Ok(Answer::None)
            }
            "slash_commands" => {
                let names = BTreeMap::new();
                match interaction::read_slash(payload, &self.scene(&names), Utc::now()) {
                    Reading::Said(line) => self.command(*line).await.map(Answer::Words),
                    reading => self.keep(reading, payload).await.map(|()| Answer::None),
                }
            }
            "interactive" => {
                let names = self.names(payload).await;
                match interaction::read_press(payload, &self.scene(&names), Utc::now()) {
                    Reading::Said(line) => self.press(*line).await,
                    _ => Ok(Answer::None),
                }
            }
            _ => Ok(Answer::None),
        }
    }

    /// A slash command, which can be given where the bot is not: it could not answer there.
    async fn command(&self, mut line: Line) -> Result<&'static str, PublishError> {
        let at = line.inbound.from.clone();
        match self.is_here(&at).await {
            Some(true) => {}
            Some(false) => return Ok(replies::COMMAND_ELSEWHERE),
            // Two people's private chat looks like the bot's own.
            None => line.inbound.place = Place::Group,
        }
        let Some(line) = self.for_us(line).await? else { return Ok(replies::COMMAND_NOT_TAKEN) };
        Ok(match self.publisher.publish(line.inbound).await? {
            Published::Accepted | Published::Repeated => replies::COMMAND_TAKEN,
            Published::TurnedAway
            | Published::Full
            | Published::NotYours
            | Published::Decided
            | Published::Gone => replies::COMMAND_NOT_TAKEN,
        })
    }

    /// Whether the bot is in a chat; none if Slack does not tell in time.
    async fn is_here(&self, at: &message::Address) -> Option<bool> {
        let own = || self.slack.own_chats.lock().unwrap_or_else(PoisonError::into_inner);
        if own().contains(&at.chat) {
            return Some(true);
        }
        let spot = Spot::of(at).ok()?;
        let look =
            SlackApiConversationsHistoryRequest::new().with_channel(spot.channel).with_limit(1);
        let looking = self.slack.api.call::<_, Value>(&look);
        match timeout(self.slack.deadlines.names, looking).await.ok()? {
            Ok(_) => {
                let mut own = own();
                if own.len() >= CHATS_MAX {
                    own.clear();
                }
                own.insert(at.chat.clone());
                Some(true)
            }
            Err(error) => error.says(&["channel_not_found", "not_in_channel"]).then_some(false),
        }
    }

    pub(super) async fn accept_event(&self, event: &Value) -> Result<(), PublishError> {
        let names = self.names(event).await;
        let reading = inbound::read(event, &self.scene(&names));
        self.keep(reading, event).await
    }

    async fn names(&self, event: &Value) -> BTreeMap<String, String> {
        let (slack, people) = (self.slack, inbound::people(event));
        slack.names.of(&people, &slack.api, slack.deadlines.names).await
    }

    pub(super) fn scene<'a>(&'a self, names: &'a BTreeMap<String, String>) -> Scene<'a> {
        let (bot, channel) = (self.bot, self.publisher.channel());
        Scene { bot, channel, threads: self.slack.threads, names }
    }

    async fn keep(&self, reading: Reading, raw: &Value) -> Result<(), PublishError> {
        match reading {
            Reading::Said(line) => {
                if let Some(line) = self.for_us(*line).await? {
                    self.publisher.publish(line.inbound).await?;
                }
            }
            Reading::Edited(line) => self.change(*line).await?,
            Reading::Deleted { at, id, key } => self.publisher.withdraw(&at, &id, key).await?,
            Reading::Unreadable(key) => self.publisher.keep_raw(key, raw.to_string()).await?,
            Reading::Ignored => {}
        }
        Ok(())
    }

    async fn change(&self, line: Line) -> Result<(), PublishError> {
        let is_known = self.publisher.amend(line.inbound.clone()).await?;
        let is_recent = Utc::now() - line.inbound.at <= CHANGE_AGE_MAX;
        // Only what speaks to the bot itself counts of what was there already.
        if let (false, Some(id)) = (is_known, &line.inbound.id) {
            self.publisher.reword_overheard(&line.heard_at, id, as_context(&line.inbound));
        }
        if is_known || !is_recent || line.speaks != Speaks::ToUs {
            return Ok(());
        }
        if let Some(line) = self.for_us(line).await? {
            self.publisher.edit(line.inbound).await?;
        }
        Ok(())
    }

    /// The line, if it speaks to the bot; what others say among themselves is only overheard.
    async fn for_us(&self, mut line: Line) -> Result<Option<Line>, PublishError> {
        let sender = line.inbound.cause.sender_mut();
        if sender.bot {
            let known = line.bot_ids.iter().find(|id| self.publisher.lets_bot(id));
            let Some(known) = known else { return Ok(None) };
            sender.id = known.clone();
        }
        if line.inbound.place == Place::Private {
            return Ok(Some(line));
        }
        let is_for_us = match (self.publisher.groups(line.inbound.places()), line.speaks) {
            (Groups::Off, _) => return Ok(None),
            (Groups::Always, _) | (Groups::Mention, Speaks::ToUs) => true,
            // In a thread that it takes part in, everything is a reply to it.
            (Groups::Mention, Speaks::InThread) => {
                self.publisher.takes_part(&line.inbound.from).await?
            }
            (Groups::Mention, Speaks::Aside) => false,
        };
        if is_for_us {
            return Ok(Some(line));
        }
        if let Some(id) = &line.inbound.id {
            let said = as_context(&line.inbound);
            self.publisher.overheard(&line.heard_at, id.clone(), said);
        }
        Ok(None)
    }

    /// A pressed button; whoever may not press it is told so.
    async fn press(&self, line: Line) -> Result<Answer, PublishError> {
        let (at, cause) = (line.inbound.from.clone(), line.inbound.cause.clone());
        let words = match self.publisher.publish(line.inbound).await? {
            Published::Accepted | Published::Repeated => return Ok(Answer::None),
            Published::NotYours | Published::TurnedAway => replies::NOT_YOURS_TO_PRESS,
            Published::Full => replies::PRESS_LATER,
            Published::Decided => replies::ALREADY_DECIDED,
            Published::Gone => replies::BUTTON_TOO_OLD,
        };
        let sender = cause.into_sender();
        Ok(Answer::Whisper(Whisper { at, to: sender.id, words }))
    }

    async fn whisper(&self, whisper: Whisper) {
        let Whisper { at, to, words } = whisper;
        let Ok(spot) = Spot::of(&at) else { return };
        let content = SlackMessageContent::new().with_text(words.to_owned());
        let to = SlackUserId(to.as_str().to_owned());
        let request = SlackApiChatPostEphemeralRequest::new(spot.channel, to, content)
            .opt_thread_ts(spot.thread);
        if let Err(error) = self.slack.api.call::<_, Value>(&request).await {
            tracing::debug!(%at, ?error, "Could not say a private word");
        }
    }
}

/// What was said to others, as the bot is told of it later.
fn as_context(said: &Inbound) -> message::Line {
    let author = said.cause.sender();
    message::Line { at: said.at, author: author.name.clone(), text: said.body.text.clone() }
}
