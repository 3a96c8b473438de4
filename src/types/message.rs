//! What travels between people and the agent: messages in, messages out, hints, and the names and
//! addresses they carry. Data only; nothing here knows a platform or the store.

mod cause;

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use cause::{Cause, Printed};

use crate::types::source::Span;

/// Makes a newtype over `String` for a name or id that a platform or an operator gave.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<String>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

named! {
    /// A channel's name in the config: `home` in `[channels.home]`.
    ChannelName,
    /// A chat within a channel, as its platform calls it.
    ChatId,
    /// A thread or forum topic within a chat.
    ThreadId,
    /// A message as its platform calls it; unique within its chat.
    MessageId,
    /// A platform's id of the account that speaks.
    SenderId,
    /// What makes two deliveries of one platform message the same; unique within a daemon's life.
    DedupKey,
}

/// Where an answer goes: the same channel, chat and thread that asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    pub channel: ChannelName,
    pub chat: ChatId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.channel, self.chat)?;
        self.thread.iter().try_for_each(|thread| write!(f, ":{thread}"))
    }
}

/// Reads `CHANNEL:CHAT[:THREAD]`, the form that [`Address`] displays as.
impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(channel), Some(chat), thread)
                if !channel.is_empty() && !chat.is_empty() && thread != Some("") =>
            {
                Ok(Self {
                    channel: channel.into(),
                    chat: chat.into(),
                    thread: thread.map(ThreadId::from),
                })
            }
            _ => Err(format!(
                "`{text}` is not an address; write CHANNEL:CHAT or CHANNEL:CHAT:THREAD"
            )),
        }
    }
}

/// Who speaks on a platform: the account and the name that it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    pub id: SenderId,
    pub name: String,
    /// Another bot, which the config lets speak.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bot: bool,
}

impl Sender {
    pub fn person(id: impl Into<SenderId>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), bot: false }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (id {})", self.name, self.id)
    }
}

/// Whether others can read along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    Private,
    Group,
}

/// A message that a channel heard and that speaks to the bot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbound {
    pub key: DedupKey,
    /// When it was said, by the platform's clock.
    pub at: DateTime<Utc>,
    pub from: Address,
    pub place: Place,
    /// What the chat lies in and may be let in by: a Discord server's id, say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<ChatId>,
    pub cause: Cause,
    /// What an answer in a group replies to.
    pub id: Option<MessageId>,
    pub body: Said,
}

impl Inbound {
    /// Where it was said, as a config may name it: the thread, the chat, what the chat lies in.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        let thread = self.from.thread.iter().map(ThreadId::as_str);
        let around = self.within.iter().map(ChatId::as_str);
        thread.chain([self.from.chat.as_str()]).chain(around)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub text: String,
    /// The message that this one replies to, if the platform showed it, or that it passes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quote>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaRef>,
    /// A button that was pressed; what it says becomes the text once the press is admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub press: Option<Press>,
    /// More of the same thing may follow at once: this is one picture of an album, or a text as long
    /// as the platform lets one message be.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    /// The sources of its text, if that is not a person's; none: who or what the cause names wrote it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Span>,
}

impl Said {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Whether files that came with it are still to be fetched.
    pub fn awaits_files(&self) -> bool {
        self.media.iter().any(|media| media.fetched.is_none())
    }

    /// Takes over what became of its files. What was spoken in its own stands above what was written;
    /// what was spoken in quoted ones stays with them.
    pub fn receive(&mut self, files: &[MediaRef]) {
        let mut words = Vec::new();
        let open = self.media.iter_mut().enumerate().filter(|(_, own)| own.fetched.is_none());
        for (n, own) in open {
            let same = |file: &&MediaRef| {
                file.fetched.is_some()
                    && (file.kind, &file.handle, file.quoted) == (own.kind, &own.handle, own.quoted)
            };
            let file = files.get(n).filter(same).or_else(|| files.iter().find(same));
            let Some(file) = file else { continue };
            own.clone_from(file);
            if let Some(Fetched::Transcribed { words: spoken, .. }) = &own.fetched
                && !own.quoted
            {
                words.push(spoken.clone());
            }
        }
        if !words.is_empty() {
            words.extend(
                Some(std::mem::take(&mut self.text)).filter(|text| !text.trim().is_empty()),
            );
            self.text = words.join("\n\n");
        }
    }
}

/// A button, as its message knows it: the question's delivery and which of its choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Press {
    pub delivery: DeliveryId,
    pub choice: usize,
}

/// The form that travels over a platform as a button's data; at most 64 bytes, which is what the
/// narrowest of them takes (Bot API, InlineKeyboardButton).
impl fmt::Display for Press {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p:{}:{}", self.delivery.0, self.choice)
    }
}

impl FromStr for Press {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (delivery, choice) =
            text.strip_prefix("p:").and_then(|ids| ids.split_once(':')).ok_or(())?;
        let delivery = DeliveryId(delivery.parse().map_err(drop)?);
        Ok(Self { delivery, choice: choice.parse().map_err(drop)? })
    }
}

/// A file that came with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaRef {
    pub kind: MediaKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// As the platform says; once it is fetched, a picture's is what its bytes say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// In bytes, as far as the platform says; once it is fetched, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How the platform calls it; only its adapter can read that.
    pub handle: String,
    /// None until it was fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Fetched>,
    /// It belongs to the message that is replied to or passed on: what is spoken in it are not the
    /// words of who sends it now.
    #[serde(default, skip_serializing_if = "is_false")]
    pub quoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    Image,
    Audio,
    /// A voice message, which stands for a text.
    Voice,
    Video,
    Document,
    Sticker,
}

/// What became of a file that came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fetched {
    /// Its path in the workspace.
    Workspace(String),
    /// It lies in the workspace, and what was spoken in it is the message's text, or quoted there.
    Transcribed { path: String, words: String },
    /// It lies in the workspace, and why nobody has read what is spoken in it.
    Untranscribed { path: String, reason: String },
    /// Why it is not there, in words.
    Failed(String),
}

impl Fetched {
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Workspace(path)
            | Self::Transcribed { path, .. }
            | Self::Untranscribed { path, .. } => Some(path),
            Self::Failed(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    pub author: String,
    pub text: String,
    /// Neither the bot's own words nor those of who sends it now.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_others: bool,
}

/// A row of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeliveryId(pub i64);

/// A message on its way to a place, or one chunk of it; durable until the platform has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    pub id: DeliveryId,
    /// Which chunk of the delivery this is.
    pub part: u32,
    pub to: Address,
    pub reply_to: Option<MessageId>,
    /// It is sent before an older one, so that it is not plain what it answers, not even in private.
    pub overtakes: bool,
    /// A draft that this message takes the place of.
    pub replaces: Option<MessageId>,
    pub body: Body,
}

/// In the outbox a text is CommonMark, as models write it. An adapter is given chunks, whose text is
/// in the platform's own markup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    Text(String),
    /// What a program printed: shown as it is, no markup is read in it. Sent as texts.
    Printed(String),
    Choice(Question),
    File(Attachment),
}

impl Body {
    /// The words of it: the text, the question, or what stands under the file.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Printed(text) | Self::Choice(Question { text, .. }) => text,
            Self::File(file) => &file.caption,
        }
    }

    pub fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Text(text) | Self::Printed(text) | Self::Choice(Question { text, .. }) => text,
            Self::File(file) => &mut file.caption,
        }
    }
}

/// A text with buttons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub text: String,
    pub choices: Vec<Choice>,
    pub who: Entitled,
}

impl Question {
    /// Its last words: only they stand over its buttons when it is long.
    pub fn end(&self) -> &str {
        const SHOWN_CHARS_MAX: usize = 500;
        let chars = self.text.chars().count();
        let cut = self.text.char_indices().nth(chars.saturating_sub(SHOWN_CHARS_MAX));
        cut.map_or(&self.text, |(at, _)| &self.text[at..])
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What stands on the button.
    pub label: String,
    /// What whoever presses it says thereby: a command, or an answer.
    pub says: String,
}

/// Who may press a button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entitled {
    /// Who may speak there.
    Anyone,
    Only(SenderId),
    /// Admins and the owner.
    Admins,
    Owner,
}

/// A file on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub name: String,
    pub kind: MediaKind,
    pub caption: String,
    /// A program printed the caption or the text: they are shown as they are, no markup is read.
    #[serde(default, skip_serializing_if = "is_false")]
    pub printed: bool,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A path in the workspace, read when it is sent.
    Workspace(String),
    /// The content itself.
    Text(String),
}

/// A sign of life beside the answer: best effort, may be dropped, never delays an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    Typing,
    /// The whole text so far.
    Draft(String),
    /// Deletes a draft.
    Erase(MessageId),
    /// A sign at somebody's message.
    React {
        message: MessageId,
        with: Reaction,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It has been taken up.
    Seen,
    /// It was taken into what is already being worked on.
    Steered,
}

/// A line that was heard and does not speak to the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub at: DateTime<Utc>,
    pub author: String,
    pub text: String,
}
