//! Decodes an event. Pure: Slack's event in, ours out. [`routing`](crate::channels::routing) decides about the
//! result. Slack sends a mention twice, as `message` and as `app_mention`, in any order: both are decoded
//! alike and have one key, and the text shows if the bot is addressed. The structs are our own, because
//! the SDK's structs reject a whole event for one new kind of block in it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::{Threads, files, mrkdwn};
use crate::channels::routing::{self, Addressee, DecodedMessage};
use crate::types::commands;
use crate::types::message::{
    Address, Cause, ChannelName, ChatKind, DedupKey, Inbound, InboundContent, Quote, Sender,
    SenderId, ThreadId,
};

/// Maximum length of a forwarded message, in characters.
const QUOTE_CHARS_MAX: usize = 500;

/// Maximum number of files of one message. Slack accepts ten at a time.
const FILES_MAX: usize = 20;

/// The bot's own account, from `auth.test`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SlackIdentity {
    #[serde(rename = "user_id")]
    pub user: String,
    #[serde(default, rename = "bot_id")]
    pub bot: Option<String>,
    #[serde(rename = "team_id")]
    pub team: String,
    #[serde(default, rename = "user")]
    pub name: String,
    #[serde(default, rename = "team")]
    pub team_name: String,
}

/// Context for decoding an event.
pub struct SlackReadingContext<'a> {
    pub bot: &'a SlackIdentity,
    pub channel: &'a ChannelName,
    pub threads: Threads,
    /// Names of people by id. A person without a name here is called by the id.
    pub names: &'a BTreeMap<String, String>,
}

/// The fields of an event that we read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SlackEvent {
    subtype: Option<String>,
    channel: Option<String>,
    channel_type: Option<String>,
    user: Option<String>,
    username: Option<String>,
    bot_id: Option<String>,
    text: Option<String>,
    ts: Option<String>,
    thread_ts: Option<String>,
    /// The author of the thread's first message.
    parent_user_id: Option<String>,
    files: Option<Vec<Value>>,
    attachments: Option<Vec<Value>>,
    /// The edited message, after and before the edit.
    message: Option<Box<Self>>,
    previous_message: Option<Box<Self>>,
    deleted_ts: Option<String>,
}

/// Returns the people whom an event names, so that their names can be requested before it is decoded.
pub fn people(event: &Value) -> Vec<String> {
    let mut people = Vec::new();
    for event in [Some(event), event.get("message")].into_iter().flatten() {
        let field = |name: &str| event.get(name).and_then(Value::as_str);
        let user = field("user").or(event.get("user").and_then(|user| user["id"].as_str()));
        people.extend(user.map(str::to_owned));
        people.extend(mrkdwn::people(field("text").unwrap_or_default()).map(str::to_owned));
    }
    people
}

/// Decodes one event. Total: no server input makes it panic.
pub fn decode(event: &Value, context: &SlackReadingContext<'_>) -> routing::InboundEvent {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    if !matches!(kind, "message" | "app_mention") {
        return routing::InboundEvent::Ignored;
    }
    let decoded = SlackEvent::deserialize(event)
        .or_else(|_| SlackEvent::deserialize(essential_fields(event)));
    let Ok(mut outer) = decoded else { return unreadable(context.bot, event) };
    let place = (outer.channel.clone(), outer.channel_type.clone());
    for inner in [&mut outer.message, &mut outer.previous_message].into_iter().flatten() {
        (inner.channel, inner.channel_type) = place.clone();
    }
    context.decode(&outer)
}

/// Keeps only the essential fields: another one may have a new shape.
fn essential_fields(event: &Value) -> Value {
    const ESSENTIAL: &[&str] = &[
        "type",
        "subtype",
        "channel",
        "channel_type",
        "user",
        "bot_id",
        "text",
        "ts",
        "thread_ts",
    ];
    let mut event = event.clone();
    if let Some(object) = event.as_object_mut() {
        object.retain(|key, _| ESSENTIAL.contains(&key.as_str()));
    }
    event
}

impl SlackReadingContext<'_> {
    fn decode(&self, event: &SlackEvent) -> routing::InboundEvent {
        let decoded = match (event.subtype.as_deref(), &event.message) {
            (subtype, _) if is_written(subtype) => {
                self.message(event).map(routing::InboundEvent::New)
            }
            (Some("message_changed"), Some(message)) => self.change(event, message),
            (Some("message_deleted"), _) => self.deletion(event),
            _ => None,
        };
        decoded.unwrap_or(routing::InboundEvent::Ignored)
    }

    /// Decodes a change. Slack also reports link previews and new replies in threads as changes.
    fn change(&self, event: &SlackEvent, message: &SlackEvent) -> Option<routing::InboundEvent> {
        if message.subtype.as_deref() == Some("tombstone") {
            return self.deletion(event);
        }
        let before = event.previous_message.as_ref().map(|before| &before.text);
        if before == Some(&message.text) || !is_written(message.subtype.as_deref()) {
            return None;
        }
        let mut message = self.message(message)?;
        let sent_at = message.inbound.at;
        message.inbound.at = event.ts.as_deref().and_then(moment).unwrap_or(sent_at);
        Some(routing::InboundEvent::Edited { message, sent_at })
    }

    fn deletion(&self, event: &SlackEvent) -> Option<routing::InboundEvent> {
        let before = event.previous_message.as_deref();
        let ts = event.deleted_ts.as_ref().or(before.and_then(|before| before.ts.as_ref()))?;
        let chat = event.channel.as_deref()?;
        let thread = before.and_then(|before| before.thread_ts.as_deref());
        // A thread's first message is reported as part of the thread, but it is in the channel.
        let address = self.address(chat, thread.filter(|thread| thread != ts));
        Some(routing::InboundEvent::Deleted {
            address,
            id: ts.as_str().into(),
            key: self.key(chat, ts),
        })
    }

    fn message(&self, event: &SlackEvent) -> Option<DecodedMessage> {
        let (chat, ts) = (event.channel.as_deref()?, event.ts.as_deref()?);
        let (sender, bot_ids) = self.sender(event)?;
        let chat_kind = chat_kind(chat, event.channel_type.as_deref());
        let raw = event.text.as_deref().unwrap_or_default();
        // A thread's first message is reported as part of the thread, but it is in the channel.
        let thread = event.thread_ts.as_deref().filter(|thread| *thread != ts);
        let body = self.content(event, raw)?;
        let addressee = match thread {
            _ if mrkdwn::mentions(raw, &self.bot.user) => Addressee::Bot,
            Some(_) if mrkdwn::addresses(raw) => Addressee::Others,
            Some(_) if event.parent_user_id.as_ref() == Some(&self.bot.user) => Addressee::Bot,
            Some(_) => Addressee::Thread,
            None => Addressee::Others,
        };
        let answer_thread = match (thread, chat_kind, self.threads) {
            (None, ChatKind::Group, Threads::Thread) => Some(ts),
            _ => thread,
        };
        let own_text = Some(body.text.as_str()).filter(|text| *text != FORWARDED);
        let context =
            routing::context(&body.media, body.quoted.as_ref(), own_text.unwrap_or_default());
        let inbound = Inbound {
            key: self.key(chat, ts),
            at: moment(ts)?,
            from: self.address(chat, answer_thread),
            chat_kind,
            within: vec![self.bot.team.as_str().into()],
            cause: Cause::Person(sender),
            id: Some(ts.into()),
            body,
        };
        let context_address = self.address(chat, thread);
        Some(DecodedMessage { inbound, addressee, context_address, context, bot_ids })
    }

    /// Returns the sender, and for another bot the ids by which the config may admit it. None for
    /// ourselves.
    fn sender(&self, event: &SlackEvent) -> Option<(Sender, Vec<SenderId>)> {
        let (user, bot) = (event.user.as_deref(), event.bot_id.as_deref());
        let is_us = user == Some(&self.bot.user) || bot.is_some() && bot == self.bot.bot.as_deref();
        if is_us || user == Some(SLACKBOT) {
            return None;
        }
        let id = user.or(bot)?;
        let name = event.username.clone().filter(|name| bot.is_some() && !name.is_empty());
        let name = name.unwrap_or_else(|| self.name_of(id));
        let bot_ids = match bot {
            Some(bot) => user.into_iter().chain([bot]).map(SenderId::from).collect(),
            None => Vec::new(),
        };
        Some((Sender { id: id.into(), name, bot: bot.is_some() }, bot_ids))
    }

    pub(super) fn name_of(&self, person: &str) -> String {
        if person == self.bot.user {
            return self.bot.name.clone();
        }
        self.names.get(person).cloned().unwrap_or_else(|| person.to_owned())
    }

    /// Returns the content without mentions that only address the bot. None if it is empty.
    fn content(&self, event: &SlackEvent, raw: &str) -> Option<InboundContent> {
        let own_text = mrkdwn::without_address(raw, &self.bot.user);
        let mut text = command(&mrkdwn::plain(own_text, &|person| self.name_of(person)));
        let quoted = event.attachments.iter().flatten().find_map(|shared| self.quote(shared));
        let files = event.files.iter().flatten();
        let media: Vec<_> = files.filter_map(files::read).take(FILES_MAX).collect();
        if text.is_empty() && media.is_empty() {
            quoted.as_ref()?;
            FORWARDED.clone_into(&mut text);
        }
        Some(InboundContent { text, quoted, media, ..InboundContent::default() })
    }

    /// Returns a forwarded message. None for other attachments.
    fn quote(&self, attachment: &Value) -> Option<Quote> {
        let field = |name: &str| attachment.get(name).and_then(Value::as_str);
        let flag = |name: &str| attachment.get(name).and_then(Value::as_bool).unwrap_or_default();
        if !flag("is_share") && !flag("is_msg_unfurl") {
            return None;
        }
        let text = mrkdwn::plain(field("text")?, &|person| self.name_of(person));
        let text: String = text.chars().take(QUOTE_CHARS_MAX).collect();
        let author = field("author_name").unwrap_or("somebody").to_owned();
        (!text.is_empty()).then_some(Quote { author, text, by_others: true, by_bot: false })
    }

    pub(super) fn address(&self, chat: &str, thread: Option<&str>) -> Address {
        let thread = thread.map(ThreadId::from);
        Address { channel: self.channel.clone(), chat: chat.into(), thread }
    }

    fn key(&self, chat: &str, ts: &str) -> DedupKey {
        // Two bots of a workspace receive one message, and each of them must answer it.
        format!("slack:{}:{}:{chat}:{ts}", self.bot.team, self.bot.user).into()
    }
}

/// User id of Slack's own bot.
const SLACKBOT: &str = "USLACKBOT";

/// Text of a message that only forwards another one.
const FORWARDED: &str = "[forwarded a message]";

/// Returns true if a message of this kind is written by somebody. The other kinds report joins, topics
/// and pins.
fn is_written(subtype: Option<&str>) -> bool {
    const WRITTEN: &[&str] = &["bot_message", "file_share", "me_message", "thread_broadcast"];
    subtype.is_none_or(|subtype| WRITTEN.contains(&subtype))
}

/// Converts `!stop` to `/stop`: Slack allows no slash commands in threads.
fn command(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('!').map(|rest| format!("/{rest}")) {
        Some(command) if is_command(&command) => command,
        _ => text.to_owned(),
    }
}

pub(super) fn is_command(text: &str) -> bool {
    commands::find(text).is_some()
}

/// Returns the kind of a chat. An `app_mention` does not have it, but the chat's id shows it.
pub(super) fn chat_kind(chat: &str, kind: Option<&str>) -> ChatKind {
    match kind {
        Some("im") => ChatKind::Private,
        None if chat.starts_with('D') => ChatKind::Private,
        _ => ChatKind::Group,
    }
}

/// Parses Slack's time, such as `1610241741.000200`.
pub(super) fn moment(ts: &str) -> Option<DateTime<Utc>> {
    let (seconds, micros) = ts.split_once('.').unwrap_or((ts, "0"));
    let nanos = micros.parse::<u32>().ok()?.checked_mul(1000)?;
    DateTime::from_timestamp(seconds.parse().ok()?, nanos)
}

pub(super) fn unreadable(bot: &SlackIdentity, event: &Value) -> routing::InboundEvent {
    let raw = event.to_string();
    let key = format!("slack:{}:{}:{}", bot.team, bot.user, routing::digest(&raw)).into();
    routing::InboundEvent::Unreadable { key, raw }
}
