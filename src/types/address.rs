//! Names and ids from a platform or an operator, and the address built from them. Data only.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Declares a newtype over `String` for a name or id from a platform or an operator.
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
    /// A chat within a channel, by its platform's id.
    ChatId,
    /// A thread or forum topic within a chat.
    ThreadId,
    /// A message, by its platform's id. Unique within its chat.
    MessageId,
    /// A platform's id of the account that sends a message.
    SenderId,
    /// Identifies repeated deliveries of one platform message. Unique within a daemon's life.
    DedupKey,
}

/// Destination of an answer: the channel, chat and thread of the question.
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

/// Parses `CHANNEL:CHAT[:THREAD]`, the form that [`Address`] displays as.
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
