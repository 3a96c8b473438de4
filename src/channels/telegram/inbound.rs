//! Decodes an update. Pure: an update in, an [`InboundEvent`] out. [`routing`](crate::channels::routing) decides about
//! the result.

mod forward;
mod marks;
mod media;
mod press;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use teloxide::types::{Chat, Message, MessageEntity, MessageKind, Update, UpdateKind, User};

use crate::channels::routing::{self, Addressee, InboundEvent};
use crate::types::message::{
    Address, Cause, ChannelName, ChatKind, DedupKey, Inbound, InboundContent, MediaRef, Quote,
    Sender,
};

use marks::{MarkAddressee, marks, without_address};
use media::{MEDIA, description, is_card};

/// Maximum length of a quoted message, in characters.
const QUOTE_CHARS_MAX: usize = 500;

/// Minimum length, in UTF-16 units, of a text whose rest may follow. Clients cut a pasted text at 4096
/// units or before: at the best break in the second half of that.
const PASTE_MIN: usize = 2048;

/// The bot's own account, from `getMe`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TelegramIdentity {
    pub id: u64,
    pub username: String,
    /// True if the bot also receives messages in groups that do not address it.
    #[serde(default)]
    pub can_read_all_group_messages: bool,
}

/// Context for decoding an update.
pub struct TelegramReadingContext<'a> {
    pub bot: &'a TelegramIdentity,
    pub channel: &'a ChannelName,
    /// The album of this chat that addressed the bot before: only one of its pictures has the text.
    pub album: Option<&'a str>,
    pub now: DateTime<Utc>,
}

/// A decoded update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    pub event: InboundEvent,
    /// The callback query to answer, whichever button it was.
    pub query: Option<String>,
}

impl From<InboundEvent> for Decoded {
    fn from(event: InboundEvent) -> Self {
        Self { event, query: None }
    }
}

/// Decodes one update. Total: no server input makes it panic.
pub fn decode(update: &Value, context: &TelegramReadingContext<'_>) -> Decoded {
    let decoded = if let Some(raw) = update.get("message") {
        read_message(raw, context, InboundEvent::New).map(Decoded::from)
    } else if let Some(raw) = update.get("edited_message") {
        let edited = |message| InboundEvent::Edited { message, sent_at: sent_at(raw, context) };
        read_message(raw, context, edited).map(Decoded::from)
    } else if let Some(raw) = update.get("callback_query") {
        press::read(raw, context)
    } else {
        read_other(update).map(Decoded::from)
    };
    decoded.unwrap_or_else(|| {
        let key = unreadable_key(update, context.bot);
        InboundEvent::Unreadable { key, raw: update.to_string() }.into()
    })
}

/// Decodes an update of another kind, which is ignored. None if the kind is unknown.
fn read_other(update: &Value) -> Option<InboundEvent> {
    match Update::deserialize(update) {
        Ok(Update { kind: UpdateKind::Error(_), .. }) | Err(_) => None,
        Ok(_) => Some(InboundEvent::Ignored),
    }
}

/// Returns the time at which a message was first sent, however often it was edited since.
fn sent_at(raw: &Value, context: &TelegramReadingContext<'_>) -> DateTime<Utc> {
    let sent = raw.get("date").and_then(Value::as_i64);
    sent.and_then(|sent| DateTime::from_timestamp(sent, 0)).unwrap_or(context.now)
}

/// Decodes a message. None if it is unreadable.
fn read_message(
    raw: &Value,
    context: &TelegramReadingContext<'_>,
    to_event: impl FnOnce(routing::DecodedMessage) -> InboundEvent,
) -> Option<InboundEvent> {
    let readable = readable_fields(raw);
    let has_text = readable.get("text").is_some();
    let parsed = Message::deserialize(&readable);
    let message = match parsed {
        Ok(message) if message.text().is_some() || !has_text => message,
        _ => Message::deserialize(essential_fields(readable)).ok()?,
    };
    Some(build_message(&message, raw, context).map_or(InboundEvent::Ignored, to_event))
}

/// Returns the message without the fields that we do not read, and with media as texts. Otherwise a new
/// kind of entity, or a file without a MIME type, would make the whole message unreadable.
fn readable_fields(raw: &Value) -> Value {
    const UNREAD: &[&str] = &[
        "effect_id",
        "external_reply",
        "forward_origin",
        "link_preview_options",
        "reply_markup",
        "reply_to_story",
        "sender_business_bot",
        "via_bot",
    ];
    let mut message = raw.clone();
    let Some(object) = message.as_object_mut() else { return message };
    object.retain(|key, _| !UNREAD.contains(&key.as_str()));
    if description(raw).is_some() {
        object.retain(|key, _| !MEDIA.contains(&key.as_str()));
        let caption = object.remove("caption").unwrap_or_else(|| "".into());
        object.entry("text").or_insert(caption);
        if let Some(entities) = object.remove("caption_entities") {
            object.insert("entities".to_owned(), entities);
        }
    }
    if forward::is_forwarded(raw) {
        // A forwarded message that addressed the bot does not address it again.
        object.remove("entities");
    }
    if let Some(Value::Array(entities)) = object.get_mut("entities") {
        entities.retain(|entity| {
            let kind = entity.get("type").and_then(Value::as_str);
            matches!(kind, Some("mention" | "text_mention" | "bot_command"))
        });
    }
    if let Some(Value::Object(quote)) = object.get_mut("quote") {
        quote.remove("entities");
    }
    if let Some(replied) = object.get_mut("reply_to_message") {
        *replied = readable_fields(replied);
    }
    message
}

/// Keeps only the essential fields: another one may have a new shape.
fn essential_fields(mut message: Value) -> Value {
    const ESSENTIAL: &[&str] = &[
        "message_id",
        "date",
        "edit_date",
        "chat",
        "from",
        "sender_chat",
        "text",
        "entities",
        "message_thread_id",
        "is_topic_message",
    ];
    if let Some(object) = message.as_object_mut() {
        object.retain(|key, value| {
            let is_valid = key != "entities" || Vec::<MessageEntity>::deserialize(&*value).is_ok();
            ESSENTIAL.contains(&key.as_str()) && is_valid
        });
    }
    message
}

/// Builds the message. None if it is irrelevant to the bot.
fn build_message(
    message: &Message,
    raw: &Value,
    context: &TelegramReadingContext<'_>,
) -> Option<routing::DecodedMessage> {
    let chat_kind = match &message.chat {
        chat if chat.is_private() => ChatKind::Private,
        chat if chat.is_group() || chat.is_supergroup() => ChatKind::Group,
        _ => return None,
    };
    let sender = sender(message)?;
    let bot_ids = if sender.bot { vec![sender.id.clone()] } else { Vec::new() };
    let is_unknown =
        matches!(message.kind, MessageKind::Empty {}) && chat_kind == ChatKind::Private;
    let described = match description(raw) {
        // Most likely some new kind of media. In groups, a new kind of service message.
        None if is_unknown => Some("[sent something that cannot be read here]".to_owned()),
        described => described,
    };
    let thread = message.thread_id.filter(|_| message.is_topic_message);
    let from = Address {
        channel: context.channel.clone(),
        chat: message.chat.id.0.to_string().into(),
        thread: thread.map(|thread| thread.0.0.to_string().into()),
    };
    let context_text =
        spoken_text(message, described.clone(), context.bot, chat_kind).unwrap_or_default();
    let context_text = match forward::author(raw) {
        Some(author) if !context_text.is_empty() => format!("({author}) {context_text}"),
        _ => context_text,
    };
    let album = raw.get("media_group_id").and_then(Value::as_str);
    let addressee = match addressee(message, context.bot) {
        Addressee::Others if album.is_some() && album == context.album => Addressee::Bot,
        addressee => addressee,
    };
    let inbound = Inbound {
        key: key(context.bot, message.chat.id.0, i64::from(message.id.0)),
        at: message.edit_date().copied().unwrap_or(message.date).max(message.date),
        from: from.clone(),
        chat_kind,
        within: Vec::new(),
        cause: Cause::Person(sender),
        id: Some(message.id.0.to_string().into()),
        body: content(message, raw, described, context.bot, chat_kind)?,
    };
    Some(routing::DecodedMessage {
        inbound,
        addressee,
        context_address: from,
        context: context_text,
        bot_ids,
    })
}

/// Returns the content of a message. None if it is empty. Forwarded text is quoted: it is another
/// person's, and none of it is a command.
fn content(
    message: &Message,
    raw: &Value,
    described: Option<String>,
    bot: &TelegramIdentity,
    chat_kind: ChatKind,
) -> Option<InboundContent> {
    let own_file = media::file(raw);
    let more = raw.get("media_group_id").is_some()
        || message.text().unwrap_or_default().encode_utf16().count() >= PASTE_MIN;
    // A message that a person sent via another bot was written by that bot.
    if let Some(author) = forward::author(raw).or_else(|| forward::other_bot(raw, bot.id)) {
        let text = spoken_text(message, described, bot, chat_kind).unwrap_or_default();
        if text.is_empty() && own_file.is_none() {
            return None;
        }
        let media = own_file.map(quoted_file).into_iter().collect();
        let quoted = Some(Quote { author, text, by_others: true, by_bot: false });
        return Some(InboundContent { quoted, media, more, ..InboundContent::default() });
    }
    // A file that can be fetched needs no description, except a sticker's emoji.
    let described = described.filter(|_| own_file.is_none() || raw.get("sticker").is_some());
    let is_of_others = described.is_some() && is_card(raw);
    let text = spoken_text(message, described, bot, chat_kind);
    if text.is_none() && own_file.is_none() {
        return None;
    }
    let text = text.unwrap_or_default();
    let said = match is_of_others {
        true => InboundContent::of_others(text, routing::CARD),
        false => InboundContent::text(text),
    };
    let quoted_media = raw_replied(message, raw).and_then(media::file).map(quoted_file);
    Some(InboundContent {
        quoted: quoted(message, raw, bot),
        // A person who replies to a picture asks about it.
        media: own_file.into_iter().chain(quoted_media).collect(),
        more,
        ..said
    })
}

fn quoted_file(file: MediaRef) -> MediaRef {
    MediaRef { quoted: true, ..file }
}

/// Returns the sender. None for a channel's post in its discussion group. Anonymous admins appear as the
/// chat.
fn sender(message: &Message) -> Option<Sender> {
    if message.is_automatic_forward() {
        return None;
    }
    if let Some(chat) = &message.sender_chat {
        return Some(Sender::person(chat.id.0.to_string(), chat_name(chat)));
    }
    let user = message.from.as_ref()?;
    let person = Sender::person(user.id.0.to_string(), user.full_name());
    Some(Sender { bot: user.is_bot, ..person })
}

fn chat_name(chat: &Chat) -> String {
    chat.title().or(chat.username()).unwrap_or("somebody").to_owned()
}

fn addressee(message: &Message, bot: &TelegramIdentity) -> Addressee {
    let marks = marks(message, bot);
    let command = marks.iter().find(|mark| mark.is_command && mark.start == 0);
    if command.is_some_and(|command| command.is_for == MarkAddressee::Another) {
        return Addressee::AnotherBot;
    }
    let is_ours =
        marks.iter().any(|mark| mark.is_for == MarkAddressee::Us) || replies_to_us(message, bot);
    if is_ours { Addressee::Bot } else { Addressee::Others }
}

/// Returns the text with a description of media, without mentions that only address the bot. None if it
/// is empty.
fn spoken_text(
    message: &Message,
    described: Option<String>,
    bot: &TelegramIdentity,
    chat_kind: ChatKind,
) -> Option<String> {
    let text = without_address(message.text().unwrap_or_default(), &marks(message, bot), chat_kind);
    match described {
        Some(media) if text.is_empty() => Some(media),
        Some(media) => Some(format!("{media}\n{text}")),
        None => Some(text).filter(|text| !text.is_empty()),
    }
}

/// Returns the message that is replied to, unless it only represents the forum topic.
fn replied(message: &Message) -> Option<&Message> {
    message
        .reply_to_message()
        .filter(|replied| !matches!(replied.kind, MessageKind::ForumTopicCreated(_)))
}

fn replies_to_us(message: &Message, bot: &TelegramIdentity) -> bool {
    let author = replied(message).and_then(|replied| replied.from.as_ref());
    author.is_some_and(|author| author.id.0 == bot.id)
}

/// Returns the raw message that is replied to: one of this chat, or of another.
fn raw_replied<'a>(message: &Message, raw: &'a Value) -> Option<&'a Value> {
    match replied(message) {
        Some(_) => raw.get("reply_to_message"),
        None => raw.get("external_reply"),
    }
}

fn quoted(message: &Message, raw: &Value, bot: &TelegramIdentity) -> Option<Quote> {
    let raw_quoted = raw_replied(message, raw)?;
    let author = match replied(message) {
        Some(replied) => {
            let chat = replied.sender_chat.as_ref().map(chat_name);
            chat.or(replied.from.as_ref().map(User::full_name))
        }
        None => raw_quoted.get("origin").and_then(forward::author_of),
    };
    let author = author.unwrap_or_else(|| "somebody".to_owned());
    let selected = message.quote().map(|quote| quote.text.as_str());
    let full = replied(message).and_then(Message::text).filter(|text| !text.is_empty());
    let is_card = full.is_none() && is_card(raw_quoted);
    let text = selected.or(full).filter(|text| !text.is_empty());
    let text = text
        .map(|text| text.chars().take(QUOTE_CHARS_MAX).collect())
        .or_else(|| description(raw_quoted))?;
    let is_forward =
        forward::is_forwarded(raw_quoted) || forward::other_bot(raw_quoted, bot.id).is_some();
    let replied_user = replied(message).and_then(|replied| replied.from.as_ref());
    let is_known = |user: &User| {
        user.id.0 == bot.id || message.from.as_ref().is_some_and(|me| me.id == user.id)
    };
    let by_bot = !is_forward && replied_user.is_some_and(|user| user.id.0 == bot.id);
    Some(Quote {
        author,
        text,
        by_others: is_forward || is_card || !replied_user.is_some_and(is_known),
        by_bot,
    })
}

/// Dedup key of a message. Never made from the update's id, which Telegram may use twice.
fn key(bot: &TelegramIdentity, chat: i64, message: i64) -> DedupKey {
    format!("telegram:{}:{chat}:{message}", bot.id).into()
}

fn unreadable_key(update: &Value, bot: &TelegramIdentity) -> DedupKey {
    let message = update.get("message");
    let ids = message.and_then(|message| {
        let chat = message.get("chat")?.get("id")?.as_i64()?;
        Some(key(bot, chat, message.get("message_id")?.as_i64()?))
    });
    let digest = || routing::digest(&update.to_string());
    ids.unwrap_or_else(|| format!("telegram:{}:{}", bot.id, digest()).into())
}
