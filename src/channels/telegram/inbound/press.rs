//! Decodes a pressed button: which one, by whom, and where.

use serde::Deserialize;
use serde_json::Value;
use teloxide::types::User;

use super::{Decoded, TelegramReadingContext};
use crate::channels::routing::InboundEvent;
use crate::types::message::{Address, Cause, ChatKind, Inbound, InboundContent, Press, Sender};

/// The needed part of a callback query. The message may be too old to be included completely.
#[derive(Deserialize)]
struct Query {
    id: String,
    from: User,
    #[serde(default)]
    data: Option<String>,
    #[serde(default)]
    message: Option<TelegramShownMessage>,
}

#[derive(Deserialize)]
struct TelegramShownMessage {
    message_id: i64,
    chat: Chat,
    #[serde(default)]
    message_thread_id: Option<i64>,
    #[serde(default)]
    is_topic_message: bool,
}

#[derive(Deserialize)]
struct Chat {
    id: i64,
    r#type: String,
}

/// Decodes a callback query. None if it is unreadable.
pub(super) fn read(raw: &Value, context: &TelegramReadingContext<'_>) -> Option<Decoded> {
    let query = Query::deserialize(raw).ok()?;
    let press: Option<Press> = query.data.as_deref().and_then(|data| data.parse().ok());
    // A message that was sent inline by way of the bot has no message here, and no buttons of ours.
    let (Some(press), Some(shown)) = (press, query.message) else {
        return Some(Decoded { event: InboundEvent::Ignored, query: Some(query.id) });
    };
    let thread = shown.message_thread_id.filter(|_| shown.is_topic_message);
    let chat_kind =
        if shown.chat.r#type == "private" { ChatKind::Private } else { ChatKind::Group };
    let person = Sender::person(query.from.id.0.to_string(), query.from.full_name());
    let inbound = Inbound {
        key: format!("telegram:{}:cb:{}", context.bot.id, query.id).into(),
        // A query has no time. It is delivered at once, or within a day.
        at: context.now,
        from: Address {
            channel: context.channel.clone(),
            chat: shown.chat.id.to_string().into(),
            thread: thread.map(|thread| thread.to_string().into()),
        },
        chat_kind,
        within: Vec::new(),
        cause: Cause::Person(Sender { bot: query.from.is_bot, ..person }),
        id: Some(shown.message_id.to_string().into()),
        body: InboundContent { press: Some(press), ..InboundContent::default() },
    };
    Some(Decoded { event: InboundEvent::Pressed(inbound), query: Some(query.id) })
}
