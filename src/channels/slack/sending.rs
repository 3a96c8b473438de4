//! Sends messages, and finds them again by our id in their metadata, which people do not see.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Duration, Utc};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use slack_morphism::api::{
    SlackApiAssistantThreadsSetStatusRequest, SlackApiChatDeleteRequest,
    SlackApiChatPostMessageRequest, SlackApiChatUpdateRequest, SlackApiConversationsHistoryRequest,
    SlackApiConversationsRepliesRequest, SlackApiReactionsAddRequest,
};
use slack_morphism::blocks::{
    SlackActionsBlock, SlackBlock, SlackBlockButtonElement, SlackBlockMarkDownText,
    SlackSectionBlock,
};
use slack_morphism::{
    SlackActionId, SlackChannelId, SlackCursorId, SlackMessageContent, SlackMessageMetadata,
    SlackReactionName, SlackTs,
};

use super::call::{Method, RepliesRequest, SlackApi, WithoutPreviews};
use super::failure::SlackCallError;
use super::inbound::SlackIdentity;
use crate::channels::{ChannelError, SendLookup, Sent, Unit, text};
use crate::replies;
use crate::types::hex::hex;
use crate::types::message::{Address, Body, MessageId, Outbound, Press, Question, Reaction};

/// The event type of our metadata.
const DELIVERY: &str = "peacrab_delivery";

/// Tolerance for a difference between Slack's clock and ours.
const SKEW: Duration = Duration::minutes(5);

/// Tolerance for files, which have no id: a file of the same name that was sent just before is a different
/// one.
const FILE_SKEW: Duration = Duration::seconds(2);

/// Messages of one page.
pub(super) const PAGE: u16 = 200;

/// Maximum number of pages that are searched for a message: more than people write while an answer is on
/// its way.
const PAGES_MAX: usize = 10;

/// Maximum characters of a section block, and of a button's label (Block Kit).
const SECTION_MAX: usize = 3000;
const LABEL_MAX: usize = 75;

impl Method for SlackApiChatDeleteRequest {
    const NAME: &'static str = "chat.delete";
}

impl Method for SlackApiReactionsAddRequest {
    const NAME: &'static str = "reactions.add";
}

/// Errors of chat.update if there is nothing to edit.
const DRAFT_GONE: &[&str] = &[
    "message_not_found",
    "cant_update_message",
    "edit_window_closed",
    "channel_not_found",
    "is_inactive",
];

/// Errors with which Slack never shows a status of this app.
const NO_STATUS: &[&str] = &[
    "access_denied",
    "method_not_supported_for_channel_type",
    "missing_scope",
    "not_allowed_token_type",
    "unknown_method",
];

/// The needed part of a sent message. Other fields are ignored, so they cannot be mistaken for a failure.
#[derive(Deserialize)]
struct SlackSentMessage {
    ts: String,
}

/// A page of a channel's or a thread's messages.
#[derive(Default, Deserialize)]
pub(super) struct MessagesPage {
    #[serde(default)]
    pub(super) messages: Vec<Value>,
    #[serde(default)]
    response_metadata: Option<PageEnd>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageEnd {
    next_cursor: String,
}

/// An [`Address`] in Slack's terms.
pub(super) struct SlackAddress {
    pub(super) channel: SlackChannelId,
    pub(super) thread: Option<SlackTs>,
}

impl SlackAddress {
    pub(super) fn of(address: &Address) -> Result<Self, ChannelError> {
        let chat = address.chat.as_str();
        let is_id = chat.starts_with(['C', 'D', 'G', 'U', 'W'])
            && chat.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        let thread = address.thread.as_ref().map(|thread| thread.as_str());
        if !is_id || !thread.is_none_or(is_ts) {
            return Err(ChannelError::Refused(format!(
                "`{address}` is not a Slack address: a channel's id begins with C, D or G"
            )));
        }
        Ok(Self {
            channel: SlackChannelId(chat.to_owned()),
            thread: thread.map(|thread| SlackTs(thread.to_owned())),
        })
    }
}

fn is_ts(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.').is_some_and(|(seconds, micros)| is_number(seconds) && is_number(micros))
}

pub(super) async fn send(api: &SlackApi, message: &Outbound) -> Result<Sent, ChannelError> {
    let to = SlackAddress::of(&message.to)?;
    let metadata = SlackMessageMetadata::new(DELIVERY.to_owned())
        .with_event_payload(HashMap::from([("id".to_owned(), delivery_id(message))]));
    let text = message.body.text();
    let mut content = SlackMessageContent::new().with_text(text.to_owned()).with_metadata(metadata);
    if let Body::Choice(question) = &message.body {
        content = content.with_blocks(blocks(message, question));
    }
    match &message.replaces {
        Some(draft) => edit(api, to, draft, content, message.id.0 == 0).await,
        None => post(api, to, content).await,
    }
}

/// Returns the id by which a message is found: the same for every attempt, and different for each part of
/// an answer. It includes the text, because a bot with a new home counts from one again.
fn delivery_id(message: &Outbound) -> String {
    let text = message.body.text();
    // A copy that is marked as repeated is the same message.
    let digest = Sha256::digest(text.strip_prefix(&replies::perhaps_repeated("")).unwrap_or(text));
    format!("{}.{}.{}", message.id.0, message.chunk_index, hex(&digest[..6]))
}

/// Renders a question with its buttons below.
fn blocks(message: &Outbound, question: &Question) -> Vec<SlackBlock> {
    let sections = text::split(&question.text, SECTION_MAX, Unit::Chars).into_iter().map(|part| {
        let text = SlackBlockMarkDownText::new(part).with_verbatim(true);
        SlackSectionBlock::new().with_text(text.into()).into()
    });
    let buttons = question.choices.iter().enumerate().map(|(choice, shown)| {
        let label: String = shown.label.chars().take(LABEL_MAX).collect();
        let press = Press { delivery: message.id, choice };
        SlackBlockButtonElement::new(label.into())
            .with_action_id(SlackActionId(press.to_string()))
            .into()
    });
    let buttons = SlackActionsBlock::new(buttons.collect());
    sections.chain([buttons.into()]).collect()
}

async fn post(
    api: &SlackApi,
    to: SlackAddress,
    content: SlackMessageContent,
) -> Result<Sent, ChannelError> {
    let request = SlackApiChatPostMessageRequest::new(to.channel, content)
        .opt_thread_ts(to.thread)
        .with_unfurl_links(false)
        .with_unfurl_media(false);
    match api.call::<_, SlackSentMessage>(&request).await {
        Ok(posted) => Ok(Sent { id: Some(posted.ts.into()) }),
        Err(SlackCallError::Unreadable(reason)) => {
            tracing::warn!(%reason, "Slack accepted a message, but its response cannot be read");
            Ok(Sent { id: None })
        }
        Err(error) => Err(error.while_sending()),
    }
}

/// Replaces a draft by the content. An edit may be repeated without harm, so an ambiguous one is
/// `Unavailable`. But a draft that arrives late would replace the answer.
async fn edit(
    api: &SlackApi,
    to: SlackAddress,
    draft: &MessageId,
    content: SlackMessageContent,
    is_draft: bool,
) -> Result<Sent, ChannelError> {
    if !is_ts(draft.as_str()) {
        return Err(ChannelError::DraftGone);
    }
    // Existing blocks would stay if they were omitted.
    let content = if content.blocks.is_none() { content.with_blocks(Vec::new()) } else { content };
    let ts = SlackTs(draft.as_str().to_owned());
    let request = SlackApiChatUpdateRequest::new(to.channel, content, ts);
    let request = WithoutPreviews::of(request);
    match api.call::<_, Value>(&request).await {
        Ok(_) | Err(SlackCallError::Unreadable(_)) => Ok(Sent { id: Some(draft.clone()) }),
        Err(error) if error.is_refused_with(DRAFT_GONE) => Err(ChannelError::DraftGone),
        Err(error) if is_draft => Err(error.while_drafting()),
        Err(error) => Err(error.while_editing()),
    }
}

/// Searches for a message at the address that it was sent to.
pub(super) async fn find(
    api: &SlackApi,
    bot: &SlackIdentity,
    message: &Outbound,
    since: DateTime<Utc>,
) -> Result<SendLookup, ChannelError> {
    // An edit is repeated.
    if message.replaces.is_some() {
        return Ok(SendLookup::Unknowable);
    }
    let to = SlackAddress::of(&message.to)?;
    let skew = if matches!(message.body, Body::File(_)) { FILE_SKEW } else { SKEW };
    let (oldest, wanted) = (ts_of(since - skew), delivery_id(message));
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let page = match messages(api, &to, Some(oldest.clone()), cursor).await {
            Ok(page) => page,
            Err(SlackCallError::Denied(denial)) if denial.is_permanent() => {
                tracing::debug!(to = %message.to, error = denial.error_text, "Slack does not list the messages there");
                return Ok(SendLookup::Unknowable);
            }
            Err(error) => return Err(error.while_asking()),
        };
        let is_wanted = |sent: &&Value| match &message.body {
            Body::File(file) => is_ours(sent, bot) && has_file(sent, &file.name),
            Body::Text(_) | Body::Printed(_) | Body::Choice(_) => {
                let metadata = &sent["metadata"];
                metadata["event_type"] == DELIVERY && metadata["event_payload"]["id"] == wanted
            }
        };
        if let Some(sent) = page.messages.iter().find(is_wanted) {
            let id = sent["ts"].as_str().map(MessageId::from);
            return Ok(SendLookup::Sent(Sent { id }));
        }
        cursor = page.next();
        if cursor.is_none() {
            return Ok(SendLookup::Absent);
        }
    }
    Ok(SendLookup::Unknowable)
}

fn is_ours(message: &Value, bot: &SlackIdentity) -> bool {
    message["user"] == bot.user || bot.bot.as_ref().is_some_and(|id| message["bot_id"] == *id)
}

fn has_file(message: &Value, name: &str) -> bool {
    let files = message["files"].as_array();
    files.into_iter().flatten().any(|file| file["name"] == name || file["title"] == name)
}

/// Adds a reaction. One that exists already counts as success.
pub(super) async fn react(
    api: &SlackApi,
    at: &Address,
    message: &MessageId,
    with: Reaction,
) -> Result<(), ChannelError> {
    let name = match with {
        Reaction::Seen => "eyes",
        Reaction::Steered => "ok_hand",
    };
    let (channel, ts) = (SlackAddress::of(at)?.channel, SlackTs(message.as_str().to_owned()));
    let name = SlackReactionName(name.to_owned());
    match api.call::<_, Value>(&SlackApiReactionsAddRequest::new(channel, name, ts)).await {
        Err(error) if error.is_refused_with(&["already_reacted", "message_not_found"]) => Ok(()),
        reacted => reacted.map(drop).map_err(SlackCallError::while_editing),
    }
}

/// Deletes a draft. One that is gone already counts as success.
pub(super) async fn erase(
    api: &SlackApi,
    at: &Address,
    draft: &MessageId,
) -> Result<(), ChannelError> {
    let (channel, ts) = (SlackAddress::of(at)?.channel, SlackTs(draft.as_str().to_owned()));
    match api.call::<_, Value>(&SlackApiChatDeleteRequest::new(channel, ts)).await {
        Err(error) if error.is_refused_with(&["message_not_found"]) => Ok(()),
        erased => erased.map(drop).map_err(SlackCallError::while_editing),
    }
}

/// Returns a page of the messages at an address after `oldest`, with their metadata.
pub(super) async fn messages(
    api: &SlackApi,
    at: &SlackAddress,
    oldest: Option<SlackTs>,
    cursor: Option<SlackCursorId>,
) -> Result<MessagesPage, SlackCallError> {
    let channel = at.channel.clone();
    match at.thread.clone() {
        Some(thread) => {
            let replies = SlackApiConversationsRepliesRequest::new(channel, thread)
                .opt_oldest(oldest)
                .opt_cursor(cursor)
                .with_limit(PAGE);
            api.call(&RepliesRequest { replies, include_all_metadata: true }).await
        }
        None => {
            let history = SlackApiConversationsHistoryRequest::new()
                .with_channel(channel)
                .opt_oldest(oldest)
                .opt_cursor(cursor)
                .with_limit(PAGE)
                .with_include_all_metadata(true);
            api.call(&history).await
        }
    }
}

impl MessagesPage {
    pub(super) fn next(self) -> Option<SlackCursorId> {
        let cursor = self.response_metadata.unwrap_or_default().next_cursor;
        (!cursor.is_empty()).then_some(SlackCursorId(cursor))
    }
}

pub(super) fn ts_of(at: DateTime<Utc>) -> SlackTs {
    SlackTs(format!("{}.{:06}", at.timestamp(), at.timestamp_subsec_micros()))
}

/// Shows a status. Slack shows it only in the threads of the assistant pane, which are private. An empty
/// status clears it.
pub(super) async fn show_status(
    api: &SlackApi,
    to: &Address,
    status: &str,
    no_status: &AtomicBool,
) -> Result<(), ChannelError> {
    if !to.chat.as_str().starts_with('D') || no_status.load(Ordering::Relaxed) {
        return Ok(());
    }
    let SlackAddress { channel, thread: Some(thread) } = SlackAddress::of(to)? else {
        return Ok(());
    };
    let request = SlackApiAssistantThreadsSetStatusRequest::new(channel, status.to_owned(), thread);
    match api.call::<_, Value>(&request).await {
        Err(error) if error.is_refused_with(NO_STATUS) => {
            no_status.store(true, Ordering::Relaxed);
            Ok(())
        }
        shown => shown.map(drop).map_err(SlackCallError::while_editing),
    }
}
