//! What an update means to us. Pure: an update in, a message that speaks to the bot out. Roles
//! are not its business, only whether the bot is spoken to.

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use teloxide::types::{
    Chat, MediaKind, Message, MessageEntity, MessageEntityKind, MessageKind, Update, UpdateKind,
    User,
};

use crate::message::{Address, Cause, ChannelName, DedupKey, Inbound, Place, Quote, Said, Sender};
use crate::people::Groups;

/// How much of a quoted message comes along, in characters.
const QUOTE_CHARS_MAX: usize = 500;

/// The bot itself, as `getMe` tells.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Identity {
    pub id: u64,
    pub username: String,
}

/// What became of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It speaks to the bot.
    Speaks(Box<Inbound>),
    Ignored,
    /// To be kept as it is, under this key.
    Unreadable(DedupKey),
}

/// Reads one update. Total: nothing that a server sends makes it panic.
pub fn read(update: &Value, bot: &Identity, channel: &ChannelName, groups: Groups) -> Reading {
    let Some(raw) = update.get("message") else {
        return read_other(update, bot);
    };
    let Ok(message) = Message::deserialize(legible(raw)) else {
        return Reading::Unreadable(raw_key(update, bot));
    };
    if matches!(message.kind, MessageKind::Empty {}) && message.chat.is_private() {
        // Neither a service message that we know nor anything that we can tell the model about.
        return Reading::Unreadable(raw_key(update, bot));
    }
    inbound(&message, bot, channel, groups)
        .map_or(Reading::Ignored, |inbound| Reading::Speaks(Box::new(inbound)))
}

/// The kinds that we know and do not use are ignored (edits as well: what was said first was
/// answered); those that nobody knows are kept.
fn read_other(update: &Value, bot: &Identity) -> Reading {
    match Update::deserialize(update) {
        _ if update.get("edited_message").is_some() => Reading::Ignored,
        Ok(Update { kind: UpdateKind::Error(_), .. }) | Err(_) => {
            Reading::Unreadable(raw_key(update, bot))
        }
        Ok(_) => Reading::Ignored,
    }
}

/// The message without what we do not read. A new kind of entity, say, would otherwise make the
/// whole message unreadable.
fn legible(raw: &Value) -> Value {
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
    for key in ["entities", "caption_entities"] {
        if let Some(Value::Array(entities)) = object.get_mut(key) {
            entities.retain(|entity| {
                let kind = entity.get("type").and_then(Value::as_str);
                matches!(kind, Some("mention" | "text_mention" | "bot_command"))
            });
        }
    }
    if let Some(Value::Object(quote)) = object.get_mut("quote") {
        quote.remove("entities");
    }
    if let Some(replied) = object.get_mut("reply_to_message") {
        *replied = legible(replied);
    }
    message
}

fn inbound(
    message: &Message,
    bot: &Identity,
    channel: &ChannelName,
    groups: Groups,
) -> Option<Inbound> {
    let place = match &message.chat {
        chat if chat.is_private() => Place::Private,
        chat if chat.is_group() || chat.is_supergroup() => Place::Group,
        _ => return None,
    };
    let sender = sender(message)?;
    let text = spoken_text(message, bot, place, groups)?;
    let thread = message.thread_id.filter(|_| message.is_topic_message);
    Some(Inbound {
        key: key(bot, message.chat.id.0, i64::from(message.id.0), None),
        at: message.date,
        from: Address {
            channel: channel.clone(),
            chat: message.chat.id.0.to_string().into(),
            thread: thread.map(|thread| thread.0.0.to_string().into()),
        },
        place,
        cause: Cause::Person(sender),
        id: Some(message.id.0.to_string().into()),
        body: Said { text, quoted: quoted(message) },
    })
}

/// Who speaks; none for bots, and for what a channel posts into its discussion group. Anonymous
/// admins speak as the chat.
fn sender(message: &Message) -> Option<Sender> {
    if message.is_automatic_forward() {
        return None;
    }
    if let Some(chat) = &message.sender_chat {
        return Some(Sender { id: chat.id.0.to_string().into(), name: chat_name(chat) });
    }
    let user = message.from.as_ref().filter(|user| !user.is_bot)?;
    Some(Sender { id: user.id.0.to_string().into(), name: user.full_name() })
}

fn chat_name(chat: &Chat) -> String {
    chat.title().or(chat.username()).unwrap_or("somebody").to_owned()
}

/// What is said to the bot, without the words that only address it; none if it is not spoken to.
fn spoken_text(message: &Message, bot: &Identity, place: Place, groups: Groups) -> Option<String> {
    let media = description(message);
    let written = message.text().or(message.caption()).unwrap_or_default();
    if written.is_empty() && media.is_none() {
        return None;
    }
    let entities = message.entities().or(message.caption_entities()).unwrap_or_default();
    let marks: Vec<Mark<'_>> =
        entities.iter().filter_map(|entity| Mark::read(entity, written, bot)).collect();
    let command = marks.iter().find(|mark| mark.is_command && mark.start == 0);
    if command.is_some_and(|command| command.is_for == For::Another) {
        return None;
    }
    let speaks_to_us = match (place, groups) {
        (Place::Private, _) | (Place::Group, Groups::Always) => true,
        (Place::Group, Groups::Off) => false,
        (Place::Group, Groups::Mention) => {
            marks.iter().any(|mark| mark.is_for == For::Us) || replies_to_us(message, bot)
        }
    };
    if !speaks_to_us {
        return None;
    }
    let text = without_address(written, &marks, place);
    Some(match media {
        Some(media) if text.is_empty() => media,
        Some(media) => format!("{media}\n{text}"),
        None => text,
    })
}

/// A mention or a command in a text, with byte positions.
struct Mark<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    is_command: bool,
    is_for: For,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Us,
    Another,
    /// A command without a name.
    Anyone,
}

impl<'a> Mark<'a> {
    fn read(entity: &MessageEntity, text: &'a str, bot: &Identity) -> Option<Self> {
        let start = byte_at(text, entity.offset)?;
        let end = byte_at(text, entity.offset.checked_add(entity.length)?)?;
        let marked = text.get(start..end)?;
        let named = |name: &str| {
            if name.eq_ignore_ascii_case(&bot.username) { For::Us } else { For::Another }
        };
        let (is_command, is_for) = match &entity.kind {
            MessageEntityKind::Mention => (false, named(marked.strip_prefix('@')?)),
            MessageEntityKind::TextMention { user } if user.id.0 == bot.id => (false, For::Us),
            MessageEntityKind::BotCommand => {
                (true, marked.split_once('@').map_or(For::Anyone, |(_, name)| named(name)))
            }
            _ => return None,
        };
        Some(Self { text: marked, start, end, is_command, is_for })
    }
}

/// Telegram counts in UTF-16 units. None beyond the end or inside a character.
fn byte_at(text: &str, units: usize) -> Option<usize> {
    let mut passed = 0;
    for (at, char) in text.char_indices() {
        if passed >= units {
            return (passed == units).then_some(at);
        }
        passed += char.len_utf16();
    }
    (passed == units).then_some(text.len())
}

/// `/command@us args` → `/command args`; in groups a mention of us at either end goes. A text
/// that is nothing but a mention stays.
fn without_address(text: &str, marks: &[Mark<'_>], place: Place) -> String {
    let mut rest = text.to_owned();
    for mark in marks.iter().rev().filter(|mark| mark.is_for == For::Us) {
        // Entities that overlap would not be there any more.
        let (Some(before), Some(after)) = (rest.get(..mark.start), rest.get(mark.end..)) else {
            continue;
        };
        if mark.is_command {
            let command = mark.text.split('@').next().unwrap_or_default();
            rest = format!("{before}{command}{after}");
        } else if place == Place::Group && before.trim().is_empty() {
            rest = after.trim_start_matches([',', ':', ' ', '\n']).to_owned();
        } else if place == Place::Group && after.trim().is_empty() {
            rest = before.trim_end_matches([',', ' ', '\n']).to_owned();
        }
    }
    let rest = rest.trim();
    if rest.is_empty() { text.trim().to_owned() } else { rest.to_owned() }
}

/// The message that is replied to, unless it only stands for the forum topic.
fn replied(message: &Message) -> Option<&Message> {
    message
        .reply_to_message()
        .filter(|replied| !matches!(replied.kind, MessageKind::ForumTopicCreated(_)))
}

fn replies_to_us(message: &Message, bot: &Identity) -> bool {
    let author = replied(message).and_then(|replied| replied.from.as_ref());
    author.is_some_and(|author| author.id.0 == bot.id)
}

fn quoted(message: &Message) -> Option<Quote> {
    let replied = replied(message)?;
    let author = replied
        .sender_chat
        .as_ref()
        .map(chat_name)
        .or(replied.from.as_ref().map(User::full_name))
        .unwrap_or_else(|| "somebody".to_owned());
    let chosen = message.quote().map(|quote| quote.text.as_str());
    let text = chosen
        .or(replied.text())
        .or(replied.caption())
        .map(|text| text.chars().take(QUOTE_CHARS_MAX).collect())
        .or_else(|| description(replied))?;
    Some(Quote { author, text })
}

/// What else than text was sent, in words for the model; none for text and service messages.
fn description(message: &Message) -> Option<String> {
    if let MessageKind::Dice(dice) = &message.kind {
        return Some(format!("[sent a {:?} that shows {}]", dice.dice.emoji, dice.dice.value));
    }
    let MessageKind::Common(common) = &message.kind else { return None };
    let what = match &common.media_kind {
        MediaKind::Text(_) | MediaKind::Migration(_) => return None,
        MediaKind::Animation(_) => "an animation".to_owned(),
        MediaKind::Audio(media) => lasting("an audio file", media.audio.duration.seconds()),
        MediaKind::Contact(media) => {
            let contact = &media.contact;
            format!("a contact: {}, {}", contact.first_name, contact.phone_number)
        }
        MediaKind::Document(media) => match &media.document.file_name {
            Some(name) => format!("a file: {name}"),
            None => "a file".to_owned(),
        },
        MediaKind::PaidMedia(_) => "paid media".to_owned(),
        MediaKind::Game(media) => format!("a game: {}", media.game.title),
        MediaKind::Venue(media) => format!(
            "a place: {}, {}, latitude {}, longitude {}",
            media.venue.title,
            media.venue.address,
            media.venue.location.latitude,
            media.venue.location.longitude
        ),
        MediaKind::Location(media) => format!(
            "a location: latitude {}, longitude {}",
            media.location.latitude, media.location.longitude
        ),
        MediaKind::Photo(_) => "a photo".to_owned(),
        MediaKind::Poll(media) => format!("a poll: {}", media.poll.question),
        MediaKind::Checklist(media) => format!("a checklist: {}", media.checklist.title),
        MediaKind::Sticker(media) => match &media.sticker.emoji {
            Some(emoji) => format!("a sticker: {emoji}"),
            None => "a sticker".to_owned(),
        },
        MediaKind::Story(_) => "a story".to_owned(),
        MediaKind::Video(media) => lasting("a video", media.video.duration.seconds()),
        MediaKind::VideoNote(media) => {
            lasting("a video message", media.video_note.duration.seconds())
        }
        MediaKind::Voice(media) => lasting("a voice message", media.voice.duration.seconds()),
    };
    Some(format!("[sent {what}]"))
}

fn lasting(what: &str, seconds: u32) -> String {
    format!("{what}, {seconds} s")
}

/// Never made of the update's id, which Telegram may give twice.
fn key(bot: &Identity, chat: i64, message: i64, edited: Option<i64>) -> DedupKey {
    let edit = edited.map(|at| format!(":e{at}")).unwrap_or_default();
    format!("telegram:{}:{chat}:{message}{edit}", bot.id).into()
}

fn raw_key(update: &Value, bot: &Identity) -> DedupKey {
    let ids = ["message", "edited_message"].iter().find_map(|kind| {
        let message = update.get(kind)?;
        let chat = message.get("chat")?.get("id")?.as_i64()?;
        let edited = message.get("edit_date").and_then(Value::as_i64);
        Some(key(bot, chat, message.get("message_id")?.as_i64()?, edited))
    });
    ids.unwrap_or_else(|| {
        let digest = Sha256::digest(update.to_string());
        let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("telegram:{}:raw:{digest}", bot.id).into()
    })
}
