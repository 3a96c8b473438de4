//! Decodes slash commands, and the buttons of our questions. Pure, as `inbound` is.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::inbound::{SlackReadingContext, chat_kind, is_command, moment, unreadable};
use super::mrkdwn;
use crate::channels::routing::InboundEvent;
use crate::types::commands::CommandId;
use crate::types::message::{Cause, Inbound, InboundContent, Press, Sender};

/// A slash command.
#[derive(Deserialize)]
struct Slash {
    channel_id: String,
    user_id: String,
    #[serde(default)]
    user_name: String,
    #[serde(default)]
    text: String,
    trigger_id: String,
}

/// Decodes `/peacrab stop` as `/stop` in the chat where it was given, which is never a thread.
pub fn decode_slash(
    payload: &Value,
    context: &SlackReadingContext<'_>,
    now: DateTime<Utc>,
) -> InboundEvent {
    let Ok(slash) = Slash::deserialize(payload) else {
        return unreadable(context.bot, payload);
    };
    let typed = mrkdwn::plain(slash.text.trim(), &|person| context.name_of(person));
    let text = match typed.trim_start_matches(['/', '!']) {
        "" => CommandId::Help.line(""),
        bare if is_command(&format!("/{bare}")) => format!("/{bare}"),
        _ => typed,
    };
    let name = if slash.user_name.is_empty() { slash.user_id.clone() } else { slash.user_name };
    InboundEvent::Command(Inbound {
        // The same in every delivery of the event.
        key: format!("slack:{}:slash:{}", context.bot.team, slash.trigger_id).into(),
        at: now,
        from: context.address(&slash.channel_id, None),
        chat_kind: chat_kind(&slash.channel_id, None),
        within: vec![context.bot.team.as_str().into()],
        cause: Cause::Person(Sender::person(slash.user_id, name)),
        id: None,
        body: InboundContent::text(text),
    })
}

/// An interaction with a message's buttons.
#[derive(Deserialize)]
struct SlackInteraction {
    user: Presser,
    channel: ChannelRef,
    container: Container,
    #[serde(default)]
    actions: Vec<ButtonAction>,
}

#[derive(Deserialize)]
struct Presser {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    username: Option<String>,
}

#[derive(Deserialize)]
struct ChannelRef {
    id: String,
}

#[derive(Deserialize)]
struct Container {
    message_ts: String,
    #[serde(default)]
    thread_ts: Option<String>,
}

#[derive(Deserialize)]
struct ButtonAction {
    action_id: String,
    #[serde(default)]
    action_ts: String,
}

/// Decodes the press of one of our buttons.
pub fn decode_press(
    payload: &Value,
    context: &SlackReadingContext<'_>,
    now: DateTime<Utc>,
) -> InboundEvent {
    if payload.get("type").and_then(Value::as_str) != Some("block_actions") {
        return InboundEvent::Ignored;
    }
    // Buttons in views, or of another shape, are not those of our messages.
    let Ok(SlackInteraction { user, channel, container, actions }) =
        SlackInteraction::deserialize(payload)
    else {
        return InboundEvent::Ignored;
    };
    let press = actions.iter().find_map(|action| {
        Some((action.action_id.parse::<Press>().ok()?, action.action_ts.as_str()))
    });
    let Some((press, action_ts)) = press else { return InboundEvent::Ignored };
    let (ts, id) = (&container.message_ts, &user.id);
    let key = format!("slack:{}:{}:{ts}:press:{action_ts}:{id}", context.bot.team, channel.id);
    let name = context.names.get(id).cloned().or(user.username).or(user.name);
    let name = name.unwrap_or_else(|| id.clone());
    InboundEvent::Pressed(Inbound {
        key: key.into(),
        at: moment(action_ts).unwrap_or(now),
        from: context.address(&channel.id, container.thread_ts.as_deref()),
        chat_kind: chat_kind(&channel.id, None),
        within: vec![context.bot.team.as_str().into()],
        cause: Cause::Person(Sender::person(id.as_str(), name)),
        id: Some(ts.as_str().into()),
        body: InboundContent { press: Some(press), ..InboundContent::default() },
    })
}
