//! Ids as serenity takes them.

use serenity::model::id;

/// Parses an id for serenity, which panics at 0.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a Discord id"))
}

pub(super) fn channel_id(text: &str) -> Result<id::ChannelId, String> {
    number(text).map(id::ChannelId::new)
}

pub(super) fn message_id(text: &str) -> Result<id::MessageId, String> {
    number(text).map(id::MessageId::new)
}
