//! What travels between people and the agent: messages in, messages out, hints, and the names and
//! addresses they carry. Data only; nothing here knows a platform or the store.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

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
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (id {})", self.name, self.id)
    }
}

/// Why there is a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Person(Sender),
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
    pub cause: Cause,
    /// What an answer in a group replies to.
    pub id: Option<MessageId>,
    pub body: Said,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub text: String,
    /// The message that this one replies to, if the platform showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quote>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    pub author: String,
    pub text: String,
}

/// A row of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeliveryId(pub i64);

/// A message on its way to a place, or one chunk of it; durable until the platform has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    pub id: DeliveryId,
    pub to: Address,
    pub reply_to: Option<MessageId>,
    /// A draft that this message takes the place of.
    pub replaces: Option<MessageId>,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// CommonMark, as models write it.
    Text(String),
}

/// A sign of life beside the answer: best effort, may be dropped, never delays an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    Typing,
    /// The whole text so far.
    Draft(String),
}
