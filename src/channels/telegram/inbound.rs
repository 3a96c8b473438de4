//! What an update means to us. Pure: an update in, a message that speaks to the bot out. Roles
//! are not its business, only whether the bot is spoken to.

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use teloxide::types::{
    Chat, Message, MessageEntity, MessageEntityKind, MessageKind, Update, UpdateKind, User,
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
    let legible = legible(raw);
    let has_words = legible.get("text").is_some();
    let whole = Message::deserialize(&legible);
    let message = match whole {
        Ok(message) if message.text().is_some() || !has_words => Ok(message),
        _ => Message::deserialize(bare(legible)),
    };
    let Ok(message) = message else {
        return Reading::Unreadable(raw_key(update, bot));
    };
    inbound((&message, raw), bot, channel, groups)
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

/// The message without what we do not read, and as a text if somebody said it. A new kind of
/// entity, or a file without a MIME type, would otherwise make the whole message unreadable.
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
    if description(raw).is_some() {
        object.retain(|key, _| !MEDIA.contains(&key.as_str()));
        let caption = object.remove("caption").unwrap_or_else(|| "".into());
        object.entry("text").or_insert(caption);
        if let Some(entities) = object.remove("caption_entities") {
            object.insert("entities".to_owned(), entities);
        }
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
        *replied = legible(replied);
    }
    message
}

/// What was said, without all that is beside it: some of that has a shape that is new.
fn bare(mut message: Value) -> Value {
    const ESSENTIAL: &[&str] = &[
        "message_id",
        "date",
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
            let marks = key != "entities" || Vec::<MessageEntity>::deserialize(&*value).is_ok();
            ESSENTIAL.contains(&key.as_str()) && marks
        });
    }
    message
}

fn inbound(
    (message, raw): (&Message, &Value),
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
    let unknown = matches!(message.kind, MessageKind::Empty {}) && place == Place::Private;
    let media = match description(raw) {
        // Some new kind of media, most likely. In groups, a new kind of service message.
        None if unknown => Some("[sent something that cannot be read here]".to_owned()),
        media => media,
    };
    let speaks_to_us = speaks_to_us(message, bot, place, groups);
    let text = speaks_to_us.then(|| spoken_text(message, media, bot, place)).flatten()?;
    let thread = message.thread_id.filter(|_| message.is_topic_message);
    Some(Inbound {
        key: key(bot, message.chat.id.0, i64::from(message.id.0)),
        at: message.date,
        from: Address {
            channel: channel.clone(),
            chat: message.chat.id.0.to_string().into(),
            thread: thread.map(|thread| thread.0.0.to_string().into()),
        },
        place,
        within: Vec::new(),
        cause: Cause::Person(sender),
        id: Some(message.id.0.to_string().into()),
        body: Said { text, quoted: quoted(message, raw), ..Said::default() },
    })
}

/// Who speaks; none for bots, and for what a channel posts into its discussion group. Anonymous
/// admins speak as the chat.
fn sender(message: &Message) -> Option<Sender> {
    if message.is_automatic_forward() {
        return None;
    }
    if let Some(chat) = &message.sender_chat {
        return Some(Sender::person(chat.id.0.to_string(), chat_name(chat)));
    }
    let user = message.from.as_ref().filter(|user| !user.is_bot)?;
    Some(Sender::person(user.id.0.to_string(), user.full_name()))
}

fn chat_name(chat: &Chat) -> String {
    chat.title().or(chat.username()).unwrap_or("somebody").to_owned()
}

fn speaks_to_us(message: &Message, bot: &Identity, place: Place, groups: Groups) -> bool {
    let marks = marks(message, bot);
    let command = marks.iter().find(|mark| mark.is_command && mark.start == 0);
    if command.is_some_and(|command| command.is_for == For::Another) {
        return false;
    }
    match (place, groups) {
        (Place::Private, _) | (Place::Group, Groups::Always) => true,
        (Place::Group, Groups::Off) => false,
        (Place::Group, Groups::Mention) => {
            // Whoever wants it to stop does not stop to mention it.
            let stop = |command: &Mark<'_>| command.text.eq_ignore_ascii_case("/stop");
            marks.iter().any(|mark| mark.is_for == For::Us)
                || command.is_some_and(stop)
                || replies_to_us(message, bot)
        }
    }
}

/// What is said, media in words, without the words that only address the bot; none if nothing is.
fn spoken_text(
    message: &Message,
    media: Option<String>,
    bot: &Identity,
    place: Place,
) -> Option<String> {
    let text = without_address(message.text().unwrap_or_default(), &marks(message, bot), place);
    match media {
        Some(media) if text.is_empty() => Some(media),
        Some(media) => Some(format!("{media}\n{text}")),
        None => Some(text).filter(|text| !text.is_empty()),
    }
}

fn marks<'a>(message: &'a Message, bot: &Identity) -> Vec<Mark<'a>> {
    let (text, entities) =
        (message.text().unwrap_or_default(), message.entities().unwrap_or_default());
    entities.iter().filter_map(|entity| Mark::read(entity, text, bot)).collect()
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

fn quoted(message: &Message, raw: &Value) -> Option<Quote> {
    let replied = replied(message)?;
    let author = replied
        .sender_chat
        .as_ref()
        .map(chat_name)
        .or(replied.from.as_ref().map(User::full_name))
        .unwrap_or_else(|| "somebody".to_owned());
    let chosen = message.quote().map(|quote| quote.text.as_str());
    let text = chosen.or(replied.text()).filter(|text| !text.is_empty());
    let text = text
        .map(|text| text.chars().take(QUOTE_CHARS_MAX).collect())
        .or_else(|| description(raw.get("reply_to_message")?))?;
    Some(Quote { author, text })
}

/// What people send besides text. Telegram repeats some under an older key: an animation is a
/// document too, a venue a location; the first that is there counts.
const MEDIA: &[&str] = &[
    "animation",
    "audio",
    "contact",
    "checklist",
    "dice",
    "document",
    "game",
    "venue",
    "location",
    "paid_media",
    "photo",
    "poll",
    "sticker",
    "story",
    "video",
    "video_note",
    "voice",
];

/// What else than text was sent, in words for the model; none for text and service messages.
fn description(raw: &Value) -> Option<String> {
    let (kind, media) = MEDIA.iter().find_map(|kind| Some((*kind, raw.get(kind)?)))?;
    let field = |name: &str| match media.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let with = |what: &str, detail: Option<String>| match detail {
        Some(detail) => format!("{what}: {detail}"),
        None => what.to_owned(),
    };
    let lasting = |what: &str| match field("duration") {
        Some(seconds) => format!("{what}, {seconds} s"),
        None => what.to_owned(),
    };
    let place = |of: &Value| {
        let [latitude, longitude] = ["latitude", "longitude"].map(|name| of.get(name));
        Some(format!("latitude {}, longitude {}", latitude?, longitude?))
    };
    let what = match kind {
        "animation" => "an animation".to_owned(),
        "audio" => lasting("an audio file"),
        "contact" => {
            let contact = [field("first_name"), field("last_name"), field("phone_number")];
            let contact: Vec<_> = contact.into_iter().flatten().collect();
            with("a contact", Some(contact.join(" ")))
        }
        "checklist" => with("a checklist", field("title")),
        "dice" => format!(
            "{} that shows {}",
            field("emoji").unwrap_or_else(|| "a dice".to_owned()),
            field("value").unwrap_or_default()
        ),
        "document" => with("a file", field("file_name")),
        "game" => with("a game", field("title")),
        "venue" => {
            let parts = [field("title"), field("address"), media.get("location").and_then(place)];
            with("a place", Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", ")))
        }
        "location" => with("a location", place(media)),
        "paid_media" => "paid media".to_owned(),
        "photo" => "a photo".to_owned(),
        "poll" => with("a poll", field("question")),
        "sticker" => with("a sticker", field("emoji")),
        "story" => "a story".to_owned(),
        "video" => lasting("a video"),
        "video_note" => lasting("a video message"),
        _ => lasting("a voice message"),
    };
    Some(format!("[sent {what}]"))
}

/// Never made of the update's id, which Telegram may give twice.
fn key(bot: &Identity, chat: i64, message: i64) -> DedupKey {
    format!("telegram:{}:{chat}:{message}", bot.id).into()
}

fn raw_key(update: &Value, bot: &Identity) -> DedupKey {
    let message = update.get("message");
    let ids = message.and_then(|message| {
        let chat = message.get("chat")?.get("id")?.as_i64()?;
        Some(key(bot, chat, message.get("message_id")?.as_i64()?))
    });
    ids.unwrap_or_else(|| {
        let digest = Sha256::digest(update.to_string());
        let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("telegram:{}:raw:{digest}", bot.id).into()
    })
}
