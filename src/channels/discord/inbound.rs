//! What a message means to us. Pure: a message and where it was said in, what speaks to the bot out.
//! Roles are not its business, only whether the bot is spoken to.

use super::wire::{self, Attachment, Message, Snowflake, User};
use crate::message::{
    Address, Cause, ChannelName, DedupKey, Inbound, Place, Quote, Said, Sender, ThreadId,
};
use crate::people::Groups;

/// How much of a quoted message comes along, in characters.
const QUOTE_CHARS_MAX: usize = 500;

/// Kinds of messages that people write (Message resource, types): plain ones and replies.
const SPEECH: [u8; 2] = [0, 19];

/// Marks a voice message (Message resource, flags).
const IS_VOICE: u64 = 1 << 13;

/// The bot itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub id: Snowflake,
    pub name: String,
}

/// Whether a question in a server's channel is answered in a thread of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// It is answered where it stands.
    #[default]
    Reply,
    Open,
}

/// Where something was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// None in private.
    pub guild: Option<Snowflake>,
    pub chat: Snowflake,
    pub thread: Option<Snowflake>,
    /// Whether threads can be opened from its messages.
    pub has_threads: bool,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It speaks to the bot.
    Speaks(Box<Inbound>),
    /// Somebody said it to others.
    Overheard,
    Ignored,
}

/// What the operator wants here.
#[derive(Clone, Copy, Debug)]
pub struct Custom {
    pub groups: Groups,
    pub threads: Threads,
}

/// Whether anybody but the bot itself, other bots and Discord speaks here.
pub fn is_speech(message: &Message, bot: &Identity) -> bool {
    SPEECH.contains(&message.kind)
        && message.author.id != bot.id
        && !message.author.bot
        && message.webhook_id.is_none()
}

/// Reads one message. Total: nothing that a server sends makes it panic.
pub fn read(
    message: &Message,
    spot: &Spot,
    bot: &Identity,
    channel: &ChannelName,
    custom: Custom,
) -> Reading {
    if !is_speech(message, bot) {
        return Reading::Ignored;
    }
    let place = if spot.guild.is_some() { Place::Group } else { Place::Private };
    let Some(at) = wire::time_of(&message.id) else { return Reading::Ignored };
    let Some(text) = said(message, bot, place) else { return Reading::Ignored };
    if !speaks_to_us(message, bot, place, custom.groups) {
        return Reading::Overheard;
    }
    let mut from = spot.address(channel);
    if custom.threads == Threads::Open && spot.has_threads && from.thread.is_none() {
        // A thread that is made from a message has its id.
        from.thread = Some(ThreadId::from(message.id.as_str()));
    }
    Reading::Speaks(Box::new(Inbound {
        key: key(bot, &message.id),
        at,
        from,
        place,
        cause: Cause::Person(sender(message)),
        id: Some(message.id.as_str().into()),
        body: Said { text, quoted: quoted(message) },
    }))
}

impl Spot {
    pub fn address(&self, channel: &ChannelName) -> Address {
        Address {
            channel: channel.clone(),
            chat: self.chat.as_str().into(),
            thread: self.thread.as_deref().map(ThreadId::from),
        }
    }
}

/// Snowflakes are unique over all of Discord.
pub fn key(bot: &Identity, message: &str) -> DedupKey {
    format!("discord:{}:{message}", bot.id).into()
}

fn sender(message: &Message) -> Sender {
    let nick = message.member.as_ref().and_then(|member| member.nick.clone());
    let name = nick.unwrap_or_else(|| message.author.shown().to_owned());
    Sender { id: message.author.id.as_str().into(), name }
}

fn speaks_to_us(message: &Message, bot: &Identity, place: Place, groups: Groups) -> bool {
    let Message { content, mentions, referenced_message, .. } = message;
    match (place, groups) {
        (Place::Private, _) | (Place::Group, Groups::Always) => true,
        (Place::Group, Groups::Off) => false,
        (Place::Group, Groups::Mention) => {
            mentions.iter().any(|user| user.id == bot.id)
                || mention_forms(&bot.id).iter().any(|form| content.contains(form))
                || referenced_message.as_ref().is_some_and(|said| said.author.id == bot.id)
                // Whoever wants it to stop does not stop to mention it.
                || content.trim().eq_ignore_ascii_case("/stop")
        }
    }
}

/// What is said, media in words, without the words that only address the bot; none if nothing is.
fn said(message: &Message, bot: &Identity, place: Place) -> Option<String> {
    let text = without_address(&message.content, bot, place);
    let text = readable(&text, &message.mentions, bot);
    let mut parts = media_in_words(message);
    parts.extend(message.message_snapshots.iter().map(|forwarded| {
        let media = forwarded.message.attachments.iter().map(|file| described(file, false));
        let media: Vec<_> = media.map(|what| format!("[sent {what}]")).collect();
        let words = readable(&forwarded.message.content, &[], bot);
        let parts = media.into_iter().chain([words]).filter(|part| !part.is_empty());
        format!("[forwarded]\n{}", parts.collect::<Vec<_>>().join("\n"))
    }));
    parts.extend(Some(text).filter(|text| !text.is_empty()));
    Some(parts.join("\n")).filter(|whole| !whole.is_empty())
}

fn mention_forms(id: &str) -> [String; 2] {
    [format!("<@{id}>"), format!("<@!{id}>")]
}

/// In servers, a mention of us at either end goes. A text that is nothing but a mention stays.
fn without_address(content: &str, bot: &Identity, place: Place) -> String {
    let whole = content.trim();
    if place == Place::Private {
        return whole.to_owned();
    }
    let mut rest = whole;
    for form in mention_forms(&bot.id) {
        while let Some(after) = rest.strip_prefix(form.as_str()) {
            rest = after.trim_start_matches([',', ':', ' ', '\n']);
        }
        while let Some(before) = rest.strip_suffix(form.as_str()) {
            rest = before.trim_end_matches([',', ' ', '\n']);
        }
    }
    if rest.is_empty() { whole.to_owned() } else { rest.to_owned() }
}

/// Discord's own marks as people see them: `<@7>` is `@Ada`, `<:crab:9>` is `:crab:`.
fn readable(text: &str, mentions: &[User], bot: &Identity) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let shown = from.find('>').and_then(|end| {
            Some((shown_mark(&from[1..end], mentions, bot)?, end + 1))
        });
        match shown {
            Some((shown, length)) => {
                out.push_str(&shown);
                rest = &from[length..];
            }
            None => {
                out.push('<');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn shown_mark(mark: &str, mentions: &[User], bot: &Identity) -> Option<String> {
    if let Some(id) = mark.strip_prefix("@!").or_else(|| mark.strip_prefix('@')) {
        if id == bot.id {
            return Some(format!("@{}", bot.name));
        }
        let user = mentions.iter().find(|user| user.id == id)?;
        return Some(format!("@{}", user.shown()));
    }
    let emoji = mark.strip_prefix("a:").or_else(|| mark.strip_prefix(':'))?;
    let (name, id) = emoji.split_once(':')?;
    let is_emoji = !name.is_empty() && !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    is_emoji.then(|| format!(":{name}:"))
}

/// The message that this one replies to; not one that it forwards.
fn quoted(message: &Message) -> Option<Quote> {
    let said = message.referenced_message.as_ref()?;
    let nobody = Identity { id: String::new(), name: String::new() };
    let text = readable(&said.content, &said.mentions, &nobody);
    let text = Some(text).filter(|text| !text.trim().is_empty());
    let text = text.or_else(|| media_in_words(said).into_iter().next())?;
    let text = text.chars().take(QUOTE_CHARS_MAX).collect();
    Some(Quote { author: said.author.shown().to_owned(), text })
}

/// What else than text was sent, in words for the model.
fn media_in_words(message: &Message) -> Vec<String> {
    let is_voice = message.flags & IS_VOICE != 0;
    let files = message.attachments.iter().map(|file| described(file, is_voice));
    let stickers = message.sticker_items.iter().map(|sticker| format!("a sticker: {}", sticker.name));
    let question = |poll: &serde_json::Value| poll["question"]["text"].as_str().map(str::to_owned);
    let poll = message.poll.iter().map(|poll| match question(poll) {
        Some(question) => format!("a poll: {question}"),
        None => "a poll".to_owned(),
    });
    files.chain(stickers).chain(poll).map(|what| format!("[sent {what}]")).collect()
}

fn described(file: &Attachment, is_voice: bool) -> String {
    let kind = file.content_type.as_deref().unwrap_or_default();
    let lasting = file.duration_secs.map(|secs| format!(", {secs:.0} s")).unwrap_or_default();
    let what = match kind.split('/').next().unwrap_or_default() {
        _ if is_voice => return format!("a voice message{lasting}"),
        "image" => "a photo",
        "video" => "a video",
        "audio" => "an audio file",
        _ => "a file",
    };
    format!("{what}{lasting}: {}", file.filename)
}
