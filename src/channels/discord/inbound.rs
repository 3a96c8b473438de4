//! Decodes a message or an interaction. Pure: one with its address in, an [`InboundEvent`] out.
//! [`routing`](crate::channels::routing) decides about the result.

use chrono::{DateTime, Utc};

use super::Threads;
use crate::channels::discord::wire::{
    self, DiscordAttachment, DiscordInteraction, DiscordMessage, DiscordUser, Snowflake, Sticker,
};
use crate::channels::routing::{self, Addressee, InboundEvent};
use crate::short_text::clean_name;
use crate::types::commands;
use crate::types::message::{
    Address, Cause, ChannelName, ChatId, ChatKind, DedupKey, Inbound, InboundContent, MediaKind,
    MediaRef, OverheardLine, Press, Quote, Sender, ThreadId,
};
use crate::types::source::{Source, SourcedText};

/// Maximum length of a quoted message, in characters.
const QUOTE_CHARS_MAX: usize = 500;

/// Kinds of messages that people write (Message resource, types): plain ones and replies.
const SPEECH: [u8; 2] = [0, 19];

const THREAD_STARTER: u8 = 21;

/// Marks a voice message (Message resource, flags).
const IS_VOICE: u64 = 1 << 13;

/// Minimum length, in characters, of a text that its author may have split (the limit is 2000 without
/// Nitro).
const LONG_CHARS: usize = 1950;

/// The bot's own account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscordIdentity {
    pub id: Snowflake,
    pub name: String,
}

/// The address of a message in Discord's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscordAddress {
    /// None in private.
    pub guild: Option<Snowflake>,
    pub chat: Snowflake,
    pub thread: Option<Snowflake>,
    /// True if threads can be opened from its messages.
    pub has_threads: bool,
    /// The bot's own role in the server, if the message mentions roles.
    pub role: Option<Snowflake>,
}

/// Context for decoding a message.
#[derive(Clone, Copy)]
pub struct DiscordReadingContext<'a> {
    pub bot: &'a DiscordIdentity,
    pub channel: &'a ChannelName,
    pub threads: Threads,
}

/// Returns true unless the author is the bot itself, Discord or a webhook.
pub fn is_speech(message: &DiscordMessage, bot: &DiscordIdentity) -> bool {
    let DiscordMessage { kind, author, webhook_id, .. } = message;
    SPEECH.contains(kind) && author.id != bot.id && webhook_id.is_none()
}

/// Decodes one message. None if it is not written by a person or bot, or is empty. Total: no server input
/// makes it panic.
pub fn decode(
    message: &DiscordMessage,
    at: &DiscordAddress,
    context: &DiscordReadingContext<'_>,
) -> Option<routing::DecodedMessage> {
    let (bot, author) = (context.bot, &message.author);
    if !is_speech(message, bot) {
        return None;
    }
    let chat_kind = at.chat_kind();
    let mentions = match chat_kind {
        ChatKind::Private => Vec::new(),
        ChatKind::Group => mention_forms(bot, at.role.as_ref()),
    };
    let words = typed_text(message, bot, &mentions);
    let said = said(message, &words, context.channel);
    let media = media(message);
    let is_empty = said.text.is_empty() && media.is_empty();
    if is_empty && forwarded(message).is_none_or(|it| it.text.is_empty()) {
        return None;
    }
    let context_address = at.address(context.channel);
    let mut from = context_address.clone();
    let opens = context.threads == Threads::Open && at.has_threads && from.thread.is_none();
    // A command applies to the conversation in which it is given.
    if opens && !words.starts_with('/') {
        // A thread that is made from a message has its id.
        from.thread = Some(ThreadId::from(message.id.as_str()));
    }
    let more = message.content.chars().count() >= LONG_CHARS;
    let inbound = Inbound {
        key: key(bot, &message.id),
        at: wire::time_of(&message.id)?,
        from,
        chat_kind,
        within: at.within(),
        cause: Cause::Person(sender(author, message.member.as_ref())),
        id: Some(message.id.as_str().into()),
        body: InboundContent { quoted: quoted(message, bot), media, more, ..said },
    };
    let bot_ids = if author.bot { vec![author.id.as_str().into()] } else { Vec::new() };
    let addressee = addressee(message, bot, at);
    Some(routing::DecodedMessage {
        inbound,
        addressee,
        context_address,
        context: words_of(message, bot),
        bot_ids,
    })
}

/// Decodes an edited message. `now` is the time of the edit, unless Discord reports one.
pub fn decode_edit(
    message: &DiscordMessage,
    at: &DiscordAddress,
    context: &DiscordReadingContext<'_>,
    now: DateTime<Utc>,
) -> Option<InboundEvent> {
    let edited = message.edited_timestamp.as_deref();
    let edited = edited.and_then(|edited| DateTime::parse_from_rfc3339(edited).ok());
    let mut message = decode(message, at, context)?;
    let sent_at = std::mem::replace(&mut message.inbound.at, edited.map_or(now, Into::into));
    Some(InboundEvent::Edited { message, sent_at })
}

/// Decodes a pressed button or an invoked command. None if it is not ours.
pub fn decode_interaction(
    interaction: &DiscordInteraction,
    at: &DiscordAddress,
    context: &DiscordReadingContext<'_>,
) -> Option<InboundEvent> {
    let DiscordInteraction { id, member, user, message, data, .. } = interaction;
    let user = member.as_ref().and_then(|member| member.user.as_ref()).or(user.as_ref())?;
    let (to_event, body): (fn(Inbound) -> InboundEvent, _) = if data.name.is_empty() {
        let press = Some(data.custom_id.parse::<Press>().ok()?);
        (InboundEvent::Pressed, InboundContent { press, ..InboundContent::default() })
    } else {
        let arguments = data.options.iter().filter_map(|option| option.value.as_str());
        let words: Vec<&str> = std::iter::once(data.name.as_str()).chain(arguments).collect();
        (InboundEvent::Command, InboundContent::text(format!("/{}", words.join(" "))))
    };
    Some(to_event(Inbound {
        key: key(context.bot, &format!("i:{id}")),
        at: wire::time_of(id).unwrap_or_else(Utc::now),
        from: at.address(context.channel),
        chat_kind: at.chat_kind(),
        within: at.within(),
        cause: Cause::Person(sender(user, member.as_ref())),
        id: message.as_ref().map(|shown| shown.id.as_str().into()),
        body,
    }))
}

/// Returns a message as context. None if it is empty. The message that a thread was made from is in the
/// thread as a message of its own kind.
pub fn line(message: &DiscordMessage, bot: &DiscordIdentity) -> Option<OverheardLine> {
    if let (THREAD_STARTER, Some(starter)) = (message.kind, &message.referenced_message) {
        return line(starter, bot);
    }
    let text = words_of(message, bot);
    let author = sender(&message.author, message.member.as_ref()).name;
    let at = wire::time_of(&message.id)?;
    (!text.is_empty()).then_some(OverheardLine { at, author, text })
}

/// The full text of a message, with its forwarded text and descriptions of its files.
pub(super) fn words_of(message: &DiscordMessage, bot: &DiscordIdentity) -> String {
    let parts = [object_lines(message), typed_text(message, bot, &mention_forms(bot, None))];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let text = parts.join("\n");
    routing::context(&media(message), forwarded(message).as_ref(), &text)
}

impl DiscordAddress {
    fn chat_kind(&self) -> ChatKind {
        if self.guild.is_some() { ChatKind::Group } else { ChatKind::Private }
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

/// Dedup key of a message. Snowflakes are unique in all of Discord.
pub fn key(bot: &DiscordIdentity, message: &str) -> DedupKey {
    format!("discord:{}:{message}", bot.id).into()
}

fn sender(user: &DiscordUser, member: Option<&wire::Member>) -> Sender {
    let nick = member.and_then(|member| member.nick.clone());
    let name = nick.unwrap_or_else(|| user.shown().to_owned());
    Sender { id: user.id.as_str().into(), name, bot: user.bot }
}

fn addressee(message: &DiscordMessage, bot: &DiscordIdentity, at: &DiscordAddress) -> Addressee {
    let DiscordMessage { content, mentions, referenced_message, .. } = message;
    let names_others =
        !mentions.is_empty() || !message.mention_roles.is_empty() || message.mention_everyone;
    let replied = referenced_message.as_ref().map(|replied| replied.author.id == bot.id);
    let names_us = mentions.iter().any(|user| user.id == bot.id)
        || mention_forms(bot, at.role.as_ref()).iter().any(|form| content.contains(form));
    if names_us || replied == Some(true) {
        Addressee::Bot
    } else if at.thread.is_some() && !names_others && replied.is_none() {
        Addressee::Thread
    } else {
        Addressee::Others
    }
}

/// Returns the typed text without mentions that only address the bot, and without forwarded text: that is
/// another person's, and none of it is a command.
fn typed_text(message: &DiscordMessage, bot: &DiscordIdentity, own_mentions: &[String]) -> String {
    readable(&without_address(&message.content, own_mentions), &message.mentions, bot)
}

/// Returns the descriptions of sent objects, each in a line of its own.
fn object_lines(message: &DiscordMessage) -> String {
    let lines: Vec<_> = described_objects(message).map(|noun| format!("[sent {noun}]")).collect();
    lines.join("\n")
}

/// Returns the typed text as the author's own, below the descriptions of objects, whose names others may have chosen. A
/// command stays alone, because it would be none with something above it.
fn said(message: &DiscordMessage, words: &str, channel: &ChannelName) -> InboundContent {
    let objects = object_lines(message);
    let is_command = commands::is_control(words) || commands::find(words).is_some();
    if objects.is_empty() || is_command {
        return InboundContent::text(words);
    }
    let end = if words.is_empty() { "" } else { "\n" };
    let card = Source::Quoted { author: routing::CARD.to_owned(), by_others: true };
    let mut text = SourcedText::of(card, format!("{objects}{end}"));
    text.push(
        Source::Person { channel: channel.clone(), id: message.author.id.as_str().into() },
        words,
    );
    InboundContent { sources: text.spans().to_vec(), ..InboundContent::text(&*text) }
}

/// The written forms of a mention of the bot.
fn mention_forms(bot: &DiscordIdentity, role: Option<&Snowflake>) -> Vec<String> {
    let role = role.map(|role| format!("<@&{role}>"));
    [format!("<@{}>", bot.id), format!("<@!{}>", bot.id)].into_iter().chain(role).collect()
}

/// Removes mentions of the bot at either end. A text that is nothing else stays.
fn without_address(content: &str, own_mentions: &[String]) -> String {
    let whole = content.trim();
    let mut rest = whole;
    for form in own_mentions {
        while let Some(after) = rest.strip_prefix(form.as_str()) {
            rest = after.trim_start_matches([',', ':', ' ', '\n']);
        }
        while let Some(before) = rest.strip_suffix(form.as_str()) {
            rest = before.trim_end_matches([',', ' ', '\n']);
        }
    }
    if rest.is_empty() { whole.to_owned() } else { rest.to_owned() }
}

/// Converts Discord's marks to their visible form: `<@7>` is `@Ada`, `<:crab:9>` is `:crab:`.
fn readable(text: &str, mentions: &[DiscordUser], bot: &DiscordIdentity) -> String {
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

fn shown_mark(mark: &str, mentions: &[DiscordUser], bot: &DiscordIdentity) -> Option<String> {
    if let Some(id) = mark.strip_prefix("@!").or_else(|| mark.strip_prefix('@')) {
        if id == bot.id {
            return Some(format!("@{}", bot.name));
        }
        let user = mentions.iter().find(|user| user.id == id)?;
        // Others have chosen the name, which stands among the author's words.
        let name = clean_name(user.shown());
        return Some(format!("@{}", name.as_deref().unwrap_or(id)));
    }
    let emoji = mark.strip_prefix("a:").or_else(|| mark.strip_prefix(':'))?;
    let (name, id) = emoji.split_once(':')?;
    let is_emoji = !name.is_empty() && !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    is_emoji.then(|| format!(":{name}:"))
}

/// The forwarded text of a message. Discord does not report its author.
fn forwarded(message: &DiscordMessage) -> Option<Quote> {
    let snapshots = message.message_snapshots.iter();
    let text = snapshots.map(|it| readable(&it.message.content, &[], &DiscordIdentity::default()));
    let text = text.reduce(|text, more| format!("{text}\n{more}"))?;
    let author = "forwarded from somebody".to_owned();
    Some(Quote { author, text: text.trim().to_owned(), by_others: true, by_bot: false })
}

/// The message that this one forwards or replies to.
fn quoted(message: &DiscordMessage, bot: &DiscordIdentity) -> Option<Quote> {
    if let Some(forwarded) = forwarded(message) {
        return Some(forwarded);
    }
    let replied = message.referenced_message.as_ref()?;
    let text =
        words_of(replied, &DiscordIdentity::default()).chars().take(QUOTE_CHARS_MAX).collect();
    let is_ours = replied.author.id == bot.id;
    // The text describes objects and files, whose names others may have chosen. A voice message has none.
    let has_names = described_objects(replied).next().is_some()
        || media(replied).iter().any(|file| file.kind != MediaKind::Voice);
    let by_others = (replied.author.id != message.author.id || has_names) && !is_ours
        || !replied.message_snapshots.is_empty();
    let by_bot = is_ours && !by_others;
    Some(Quote { author: replied.author.shown().to_owned(), text, by_others, by_bot })
        .filter(|quote| !quote.text.is_empty())
}

/// Describes sent objects that are neither text nor a file that could be fetched.
fn described_objects(message: &DiscordMessage) -> impl Iterator<Item = String> {
    let polls = message.poll.iter().map(|poll| format!("a poll: {}", poll.question.text));
    let stickers = message.sticker_items.iter().filter(|sticker| picture_of(sticker).is_none());
    polls.chain(stickers.map(|sticker| format!("a sticker: {}", sticker.name)))
}

/// Extension and type of a sticker's image. Lottie, the third kind, is none (Sticker resource).
fn picture_of(sticker: &Sticker) -> Option<(&'static str, &'static str)> {
    match sticker.format_type {
        1 | 2 => Some(("png", "image/png")),
        4 => Some(("gif", "image/gif")),
        _ => None,
    }
}

/// The attached files, the stickers, and the files of forwarded messages, which count as quoted.
fn media(message: &DiscordMessage) -> Vec<MediaRef> {
    let is_voice = message.flags & IS_VOICE != 0;
    let own = message.attachments.iter().map(|file| (file, false));
    let forwarded = message.message_snapshots.iter();
    let forwarded = forwarded.flat_map(|snapshot| &snapshot.message.attachments);
    let files = own.chain(forwarded.map(|file| (file, true))).map(|(file, quoted)| MediaRef {
        kind: kind_of(file, is_voice),
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

fn kind_of(file: &DiscordAttachment, is_voice: bool) -> MediaKind {
    let kind = file.content_type.as_deref().unwrap_or_default();
    match kind.split('/').next().unwrap_or_default() {
        _ if is_voice => MediaKind::Voice,
        "image" => MediaKind::Image,
        "video" => MediaKind::Video,
        "audio" => MediaKind::Audio,
        _ => MediaKind::Document,
    }
}
