//! Forwarded messages and their authors.

use serde_json::Value;

/// Fields of a forwarded message. An operator's own server may still send the older ones, without
/// `forward_origin` (Bot API 7.0).
const FORWARD_FIELDS: &[&str] =
    &["forward_origin", "forward_date", "forward_from", "forward_from_chat", "forward_sender_name"];

/// Returns true for a forwarded message.
pub(super) fn is_forwarded(raw: &Value) -> bool {
    FORWARD_FIELDS.iter().any(|field| raw.get(field).is_some_and(|value| !value.is_null()))
}

/// Returns the author of a forwarded message, for its quote. None if it is not forwarded.
pub(super) fn author(raw: &Value) -> Option<String> {
    let origin = raw.get("forward_origin");
    let chat = || raw.get("forward_from_chat").and_then(|chat| text(chat, "title"));
    let name = origin
        .and_then(author_of)
        .or_else(|| raw.get("forward_from").and_then(full_name))
        .or_else(chat)
        .or_else(|| text(raw, "forward_sender_name"));
    is_forwarded(raw).then(|| format!("forwarded from {}", name.as_deref().unwrap_or("somebody")))
}

/// Returns the bot via which a person sent a message. None if there is none, or it is this one.
pub(super) fn other_bot(raw: &Value, own_id: u64) -> Option<String> {
    let bot = raw.get("via_bot")?;
    let is_us = bot.get("id").and_then(Value::as_u64) == Some(own_id);
    (!is_us).then(|| format!("by way of {}", full_name(bot).as_deref().unwrap_or("a bot")))
}

/// Returns the author of a message in another chat (Bot API, MessageOrigin).
pub(super) fn author_of(origin: &Value) -> Option<String> {
    let chat = ["sender_chat", "chat"].into_iter().find_map(|chat| origin.get(chat));
    let user = origin.get("sender_user").and_then(full_name);
    user.or_else(|| text(origin, "sender_user_name")).or_else(|| text(chat?, "title"))
}

fn full_name(user: &Value) -> Option<String> {
    let first = text(user, "first_name")?;
    Some(match text(user, "last_name") {
        Some(last) => format!("{first} {last}"),
        None => first,
    })
}

fn text(object: &Value, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).map(str::to_owned)
}
