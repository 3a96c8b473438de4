//! Decodes an event. Pure: Slack's event in, ours out; what becomes of that is decided in
//! [`hear`](crate::channels::hear). Slack tells of one mention twice, as `message` and as
//! `app_mention`, in any order: both are read alike and have one key, and whether we are spoken to is
//! read from the text. The structs are our own, since the SDK's refuse
//! an event as a whole for one new kind of block in it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::{Threads, files, mrkdwn};
use crate::channels::hear::{self, Addressee, Message};
use crate::types::commands;
use crate::types::message::{
    Address, Cause, ChannelName, DedupKey, Inbound, Place, Quote, Said, Sender, SenderId, ThreadId,
};

/// How much of a forwarded message comes along, in characters.
const QUOTE_CHARS_MAX: usize = 500;

/// Files of one message that are told of; Slack takes ten at a time.
const FILES_MAX: usize = 20;

/// The bot itself, as `auth.test` tells.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Identity {
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

/// What an event is decoded with.
pub struct ReadingContext<'a> {
    pub bot: &'a Identity,
    pub channel: &'a ChannelName,
    pub threads: Threads,
    /// Of people, by id; who is not among them is called by their id.
    pub names: &'a BTreeMap<String, String>,
}

/// Of an event, all that we read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    subtype: Option<String>,
    channel: Option<String>,
    channel_type: Option<String>,
    user: Option<String>,
    username: Option<String>,
    bot_id: Option<String>,
    text: Option<String>,
    ts: Option<String>,
    thread_ts: Option<String>,
    /// Who wrote the message that the thread hangs on.
    parent_user_id: Option<String>,
    files: Option<Vec<Value>>,
    attachments: Option<Vec<Value>>,
    /// The message that was changed, as it is now and as it was.
    message: Option<Box<Self>>,
    previous_message: Option<Box<Self>>,
    deleted_ts: Option<String>,
}

/// The people that an event names, so that they may be asked for before it is read.
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

/// Decodes one event. Total: nothing that a server sends makes it panic.
pub fn decode(event: &Value, context: &ReadingContext<'_>) -> hear::Event {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    if !matches!(kind, "message" | "app_mention") {
        return hear::Event::Ignored;
    }
    let decoded = Event::deserialize(event).or_else(|_| Event::deserialize(bare(event)));
    let Ok(mut whole) = decoded else { return unreadable(context.bot, event) };
    let place = (whole.channel.clone(), whole.channel_type.clone());
    for inner in [&mut whole.message, &mut whole.previous_message].into_iter().flatten() {
        (inner.channel, inner.channel_type) = place.clone();
    }
    context.decode(&whole)
}

/// What was said, without all that is beside it: some of that has a shape that is new.
fn bare(event: &Value) -> Value {
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

impl ReadingContext<'_> {
    fn decode(&self, event: &Event) -> hear::Event {
        let decoded = match (event.subtype.as_deref(), &event.message) {
            (subtype, _) if is_said(subtype) => self.message(event).map(hear::Event::New),
            (Some("message_changed"), Some(message)) => self.change(event, message),
            (Some("message_deleted"), _) => self.deletion(event),
            _ => None,
        };
        decoded.unwrap_or(hear::Event::Ignored)
    }

    /// Links that unfold and threads that grow are changes too, to Slack.
    fn change(&self, event: &Event, message: &Event) -> Option<hear::Event> {
        if message.subtype.as_deref() == Some("tombstone") {
            return self.deletion(event);
        }
        let before = event.previous_message.as_ref().map(|before| &before.text);
        if before == Some(&message.text) || !is_said(message.subtype.as_deref()) {
            return None;
        }
        let mut message = self.message(message)?;
        let said = message.inbound.at;
        message.inbound.at = event.ts.as_deref().and_then(moment).unwrap_or(said);
        Some(hear::Event::Edited { message, said })
    }

    fn deletion(&self, event: &Event) -> Option<hear::Event> {
        let before = event.previous_message.as_deref();
        let ts = event.deleted_ts.as_ref().or(before.and_then(|before| before.ts.as_ref()))?;
        let chat = event.channel.as_deref()?;
        let thread = before.and_then(|before| before.thread_ts.as_deref());
        // What a thread hangs on is told as part of it, but stands in the channel.
        let at = self.address(chat, thread.filter(|thread| thread != ts));
        Some(hear::Event::Deleted { at, id: ts.as_str().into(), key: self.key(chat, ts) })
    }

    fn message(&self, event: &Event) -> Option<Message> {
        let (chat, ts) = (event.channel.as_deref()?, event.ts.as_deref()?);
        let (sender, bot_ids) = self.sender(event)?;
        let place = place(chat, event.channel_type.as_deref());
        let raw = event.text.as_deref().unwrap_or_default();
        // What a thread hangs on is told as part of it, but stands in the channel.
        let thread = event.thread_ts.as_deref().filter(|thread| *thread != ts);
        let body = self.said(event, raw)?;
        let is_ours = mrkdwn::mentions(raw, &self.bot.user)
            // Whoever wants it to stop does not stop to mention it.
            || body.text.eq_ignore_ascii_case("/stop");
        let addressee = match thread {
            _ if is_ours => Addressee::Bot,
            Some(_) if mrkdwn::addresses(raw) => Addressee::Others,
            Some(_) if event.parent_user_id.as_ref() == Some(&self.bot.user) => Addressee::Bot,
            Some(_) => Addressee::Thread,
            None => Addressee::Others,
        };
        let answered_in = match (thread, place, self.threads) {
            (None, Place::Group, Threads::Thread) => Some(ts),
            _ => thread,
        };
        let own = Some(body.text.as_str()).filter(|text| *text != FORWARDED);
        let context = hear::context(&body.media, body.quoted.as_ref(), own.unwrap_or_default());
        let inbound = Inbound {
            key: self.key(chat, ts),
            at: moment(ts)?,
            from: self.address(chat, answered_in),
            place,
            within: vec![self.bot.team.as_str().into()],
            cause: Cause::Person(sender),
            id: Some(ts.into()),
            body,
        };
        let heard_at = self.address(chat, thread);
        Some(Message { inbound, addressee, heard_at, context, bot_ids })
    }

    /// Who speaks, and by which ids the config may know them if it is another bot; none for
    /// ourselves.
    fn sender(&self, event: &Event) -> Option<(Sender, Vec<SenderId>)> {
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

    /// What is said, without the words that only address the bot; none if nothing is.
    fn said(&self, event: &Event, raw: &str) -> Option<Said> {
        let words = mrkdwn::without_address(raw, &self.bot.user);
        let mut text = command(&mrkdwn::plain(words, &|person| self.name_of(person)));
        let quoted = event.attachments.iter().flatten().find_map(|shared| self.quote(shared));
        let files = event.files.iter().flatten();
        let media: Vec<_> = files.filter_map(files::read).take(FILES_MAX).collect();
        if text.is_empty() && media.is_empty() {
            quoted.as_ref()?;
            FORWARDED.clone_into(&mut text);
        }
        Some(Said { text, quoted, media, ..Said::default() })
    }

    /// A message that was forwarded; none for the other things that hang on to one.
    fn quote(&self, attachment: &Value) -> Option<Quote> {
        let field = |name: &str| attachment.get(name).and_then(Value::as_str);
        let is = |name: &str| attachment.get(name).and_then(Value::as_bool).unwrap_or_default();
        if !is("is_share") && !is("is_msg_unfurl") {
            return None;
        }
        let text = mrkdwn::plain(field("text")?, &|person| self.name_of(person));
        let text: String = text.chars().take(QUOTE_CHARS_MAX).collect();
        let author = field("author_name").unwrap_or("somebody").to_owned();
        (!text.is_empty()).then_some(Quote { author, text, by_others: true })
    }

    pub(super) fn address(&self, chat: &str, thread: Option<&str>) -> Address {
        let thread = thread.map(ThreadId::from);
        Address { channel: self.channel.clone(), chat: chat.into(), thread }
    }

    fn key(&self, chat: &str, ts: &str) -> DedupKey {
        // Two bots of a workspace hear one message, and each is to answer it.
        format!("slack:{}:{}:{chat}:{ts}", self.bot.team, self.bot.user).into()
    }
}

/// Slack's own bot speaks as a user.
const SLACKBOT: &str = "USLACKBOT";

/// What stands for the words of who only passes on those of another.
const FORWARDED: &str = "[forwarded a message]";

/// Whether somebody says something thereby; the other kinds tell of joining, of topics, of pins.
fn is_said(subtype: Option<&str>) -> bool {
    const SAID: &[&str] = &["bot_message", "file_share", "me_message", "thread_broadcast"];
    subtype.is_none_or(|subtype| SAID.contains(&subtype))
}

/// `!stop` is `/stop`: in threads, Slack takes no slashes.
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

/// An `app_mention` does not tell the kind of its channel, but its id does.
pub(super) fn place(chat: &str, kind: Option<&str>) -> Place {
    match kind {
        Some("im") => Place::Private,
        None if chat.starts_with('D') => Place::Private,
        _ => Place::Group,
    }
}

/// Slack's `1610241741.000200`.
pub(super) fn moment(ts: &str) -> Option<DateTime<Utc>> {
    let (seconds, micros) = ts.split_once('.').unwrap_or((ts, "0"));
    let nanos = micros.parse::<u32>().ok()?.checked_mul(1000)?;
    DateTime::from_timestamp(seconds.parse().ok()?, nanos)
}

pub(super) fn unreadable(bot: &Identity, event: &Value) -> hear::Event {
    let raw = event.to_string();
    let key = format!("slack:{}:{}:{}", bot.team, bot.user, hear::digest(&raw)).into();
    hear::Event::Unreadable { key, raw }
}
