//! Decodes a message or an interaction. Pure: it and where it was said in, an [`Event`] out. What becomes of
//! that is decided in [`hear`](crate::channels::hear).

use chrono::{DateTime, Utc};

use super::Threads;
use crate::channels::discord::wire::{
    self, Attachment, Interaction, Message, Snowflake, Sticker, User,
};
use crate::channels::hear::{self, Addressee, Event};
use crate::types::message::{
    Address, Cause, ChannelName, ChatId, DedupKey, Inbound, Line, MediaKind, MediaRef, Place,
    Press, Quote, Said, Sender, ThreadId,
};

/// How much of a quoted message comes along, in characters.
const QUOTE_CHARS_MAX: usize = 500;

/// Kinds of messages that people write (Message resource, types): plain ones and replies.
const SPEECH: [u8; 2] = [0, 19];

const THREAD_STARTER: u8 = 21;

/// Marks a voice message (Message resource, flags).
const IS_VOICE: u64 = 1 << 13;

/// A text as long as that was perhaps cut by whoever wrote it (2000 are allowed without Nitro).
const LONG_CHARS: usize = 1950;

/// The bot itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub id: Snowflake,
    pub name: String,
}

/// Where something was said, in Discord's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscordAddress {
    /// None in private.
    pub guild: Option<Snowflake>,
    pub chat: Snowflake,
    pub thread: Option<Snowflake>,
    /// Whether threads can be opened from its messages.
    pub has_threads: bool,
    /// The bot's own role in the server, where a message mentions roles.
    pub role: Option<Snowflake>,
}

/// What a message is decoded with.
#[derive(Clone, Copy)]
pub struct ReadingContext<'a> {
    pub bot: &'a Identity,
    pub channel: &'a ChannelName,
    pub threads: Threads,
}

/// Returns whether anybody speaks but the bot itself, Discord or a webhook.
pub fn is_speech(message: &Message, bot: &Identity) -> bool {
    let Message { kind, author, webhook_id, .. } = message;
    SPEECH.contains(kind) && author.id != bot.id && webhook_id.is_none()
}

/// Decodes one message; none if it is no speech, or says nothing. Total: nothing that a server sends makes it panic.
pub fn decode(
    message: &Message,
    at: &DiscordAddress,
    context: &ReadingContext<'_>,
) -> Option<hear::Message> {
    let (bot, author) = (context.bot, &message.author);
    if !is_speech(message, bot) {
        return None;
    }
    let place = at.place();
    let mentions = match place {
        Place::Private => Vec::new(),
        Place::Group => mention_forms(bot, at.role.as_ref()),
    };
    let text = said(message, bot, &mentions);
    let media = media(message);
    let says_nothing = text.is_empty() && media.is_empty();
    if says_nothing && forwarded(message).is_none_or(|it| it.text.is_empty()) {
        return None;
    }
    let heard_at = at.address(context.channel);
    let mut from = heard_at.clone();
    let opens = context.threads == Threads::Open && at.has_threads && from.thread.is_none();
    // A command is about the place where it is given.
    if opens && !text.starts_with('/') {
        // A thread that is made from a message has its id.
        from.thread = Some(ThreadId::from(message.id.as_str()));
    }
    let more = message.content.chars().count() >= LONG_CHARS;
    let inbound = Inbound {
        key: key(bot, &message.id),
        at: wire::time_of(&message.id)?,
        from,
        place,
        within: at.within(),
        cause: Cause::Person(sender(author, message.member.as_ref())),
        id: Some(message.id.as_str().into()),
        body: Said { text, quoted: quoted(message, bot), media, more, ..Said::default() },
    };
    let bot_ids = if author.bot { vec![author.id.as_str().into()] } else { Vec::new() };
    let addressee = addressee(message, bot, at);
    Some(hear::Message { inbound, addressee, heard_at, context: words_of(message, bot), bot_ids })
}

/// Decodes a changed message; it was changed `now`, unless Discord tells when.
pub fn decode_edit(
    message: &Message,
    at: &DiscordAddress,
    context: &ReadingContext<'_>,
    now: DateTime<Utc>,
) -> Option<Event> {
    let edited = message.edited_timestamp.as_deref();
    let edited = edited.and_then(|edited| DateTime::parse_from_rfc3339(edited).ok());
    let mut message = decode(message, at, context)?;
    let said = std::mem::replace(&mut message.inbound.at, edited.map_or(now, Into::into));
    Some(Event::Edited { message, said })
}

/// Decodes a pressed button or an invoked command; none if it is nothing of ours.
pub fn decode_interaction(
    interaction: &Interaction,
    at: &DiscordAddress,
    context: &ReadingContext<'_>,
) -> Option<Event> {
    let Interaction { id, member, user, message, data, .. } = interaction;
    let user = member.as_ref().and_then(|member| member.user.as_ref()).or(user.as_ref())?;
    let (to_event, body): (fn(Inbound) -> Event, _) = if data.name.is_empty() {
        let press = Some(data.custom_id.parse::<Press>().ok()?);
        (Event::Pressed, Said { press, ..Said::default() })
    } else {
        let given = data.options.iter().filter_map(|option| option.value.as_str());
        let words: Vec<&str> = std::iter::once(data.name.as_str()).chain(given).collect();
        (Event::Command, Said::text(format!("/{}", words.join(" "))))
    };
    Some(to_event(Inbound {
        key: key(context.bot, &format!("i:{id}")),
        at: wire::time_of(id).unwrap_or_else(Utc::now),
        from: at.address(context.channel),
        place: at.place(),
        within: at.within(),
        cause: Cause::Person(sender(user, member.as_ref())),
        id: message.as_ref().map(|shown| shown.id.as_str().into()),
        body,
    }))
}

/// A message as context; none if there is nothing in it. What a thread was made from stands there as
/// a message of its own kind.
pub fn line(message: &Message, bot: &Identity) -> Option<Line> {
    if let (THREAD_STARTER, Some(starter)) = (message.kind, &message.referenced_message) {
        return line(starter, bot);
    }
    let text = words_of(message, bot);
    let author = sender(&message.author, message.member.as_ref()).name;
    let at = wire::time_of(&message.id)?;
    (!text.is_empty()).then_some(Line { at, author, text })
}

/// All that a message says and passes on, files in words.
pub(super) fn words_of(message: &Message, bot: &Identity) -> String {
    let text = said(message, bot, &mention_forms(bot, None));
    hear::context(&media(message), forwarded(message).as_ref(), &text)
}

impl DiscordAddress {
    fn place(&self) -> Place {
        if self.guild.is_some() { Place::Group } else { Place::Private }
    }

    fn within(&self) -> Vec<ChatId> {
        self.guild.iter().map(|guild| guild.as_str().into()).collect()
    }

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

fn sender(user: &User, member: Option<&wire::Member>) -> Sender {
    let nick = member.and_then(|member| member.nick.clone());
    let name = nick.unwrap_or_else(|| user.shown().to_owned());
    Sender { id: user.id.as_str().into(), name, bot: user.bot }
}

fn addressee(message: &Message, bot: &Identity, at: &DiscordAddress) -> Addressee {
    let Message { content, mentions, referenced_message, .. } = message;
    let names_others =
        !mentions.is_empty() || !message.mention_roles.is_empty() || message.mention_everyone;
    let replied = referenced_message.as_ref().map(|said| said.author.id == bot.id);
    let names_us = mentions.iter().any(|user| user.id == bot.id)
        || mention_forms(bot, at.role.as_ref()).iter().any(|form| content.contains(form));
    // Whoever wants it to stop does not stop to mention it.
    let stops = content.trim().eq_ignore_ascii_case("/stop");
    if names_us || replied == Some(true) || stops {
        Addressee::Bot
    } else if at.thread.is_some() && !names_others && replied.is_none() {
        Addressee::Thread
    } else {
        Addressee::Others
    }
}

/// What is said, without the words that only address the bot, and without what is passed on: those
/// words are another's, and none of them a command.
fn said(message: &Message, bot: &Identity, address: &[String]) -> String {
    let text = without_address(&message.content, address);
    let parts = other_things(message).map(|what| format!("[sent {what}]"));
    let parts = parts.chain([readable(&text, &message.mentions, bot)]);
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// How a mention of us is written.
fn mention_forms(bot: &Identity, role: Option<&Snowflake>) -> Vec<String> {
    let role = role.map(|role| format!("<@&{role}>"));
    [format!("<@{}>", bot.id), format!("<@!{}>", bot.id)].into_iter().chain(role).collect()
}

/// What only addresses us goes at either end. A text that is nothing else stays.
fn without_address(content: &str, address: &[String]) -> String {
    let whole = content.trim();
    let mut rest = whole;
    for form in address {
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
        let shown = from
            .find('>')
            .and_then(|end| Some((shown_mark(&from[1..end], mentions, bot)?, end + 1)));
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

/// What a message passes on; Discord does not tell whose it was.
fn forwarded(message: &Message) -> Option<Quote> {
    let snapshots = message.message_snapshots.iter();
    let words = snapshots.map(|it| readable(&it.message.content, &[], &Identity::default()));
    let words = words.reduce(|words, more| format!("{words}\n{more}"))?;
    let author = "forwarded from somebody".to_owned();
    Some(Quote { author, text: words.trim().to_owned(), by_others: true })
}

/// The message that this one forwards or replies to.
fn quoted(message: &Message, bot: &Identity) -> Option<Quote> {
    if let Some(forwarded) = forwarded(message) {
        return Some(forwarded);
    }
    let said = message.referenced_message.as_ref()?;
    let text = words_of(said, &Identity::default()).chars().take(QUOTE_CHARS_MAX).collect();
    let by_others = ![&message.author.id, &bot.id].contains(&&said.author.id)
        || !said.message_snapshots.is_empty();
    Some(Quote { author: said.author.shown().to_owned(), text, by_others })
        .filter(|quote| !quote.text.is_empty())
}

/// What was sent that is neither text nor a file that could be fetched.
fn other_things(message: &Message) -> impl Iterator<Item = String> {
    let polls = message.poll.iter().map(|poll| format!("a poll: {}", poll.question.text));
    let stickers = message.sticker_items.iter().filter(|sticker| picture_of(sticker).is_none());
    polls.chain(stickers.map(|sticker| format!("a sticker: {}", sticker.name)))
}

/// Ending and type of a sticker's picture. Lottie, the third kind, is none (Sticker resource).
fn picture_of(sticker: &Sticker) -> Option<(&'static str, &'static str)> {
    match sticker.format_type {
        1 | 2 => Some(("png", "image/png")),
        4 => Some(("gif", "image/gif")),
        _ => None,
    }
}

/// The files that came, and whether they are of a message that is passed on.
fn attachments(message: &Message) -> impl Iterator<Item = (&Attachment, MediaKind, bool)> {
    let is_voice = message.flags & IS_VOICE != 0;
    let own = message.attachments.iter().map(|file| (file, false));
    let forwarded = message.message_snapshots.iter();
    let forwarded = forwarded.flat_map(|snapshot| &snapshot.message.attachments);
    let files = own.chain(forwarded.map(|file| (file, true)));
    files.map(move |(file, is_passed_on)| (file, kind_of(file, is_voice), is_passed_on))
}

fn media(message: &Message) -> Vec<MediaRef> {
    let files = attachments(message).map(|(file, kind, quoted)| MediaRef {
        kind,
        name: Some(file.filename.clone()).filter(|name| !name.is_empty()),
        mime: file.content_type.clone(),
        size: file.size,
        handle: file.url.clone(),
        fetched: None,
        quoted,
    });
    let stickers = message.sticker_items.iter().filter_map(|sticker| {
        let (end, mime) = picture_of(sticker)?;
        Some(MediaRef {
            kind: MediaKind::Sticker,
            name: Some(sticker.name.clone()),
            mime: Some(mime.to_owned()),
            size: None,
            handle: format!("https://media.discordapp.net/stickers/{}.{end}", sticker.id),
            fetched: None,
            quoted: false,
        })
    });
    files.chain(stickers).collect()
}

fn kind_of(file: &Attachment, is_voice: bool) -> MediaKind {
    let kind = file.content_type.as_deref().unwrap_or_default();
    match kind.split('/').next().unwrap_or_default() {
        _ if is_voice => MediaKind::Voice,
        "image" => MediaKind::Image,
        "video" => MediaKind::Video,
        "audio" => MediaKind::Audio,
        _ => MediaKind::Document,
    }
}
