//! Reads pages of messages for [`backlog`]: Slack repeats some missed events, but not all.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use serde_json::Value;
use slack_morphism::api::SlackApiConversationsHistoryRequest;
use slack_morphism::{SlackCursorId, SlackTs};

use super::call::SlackApi;
use super::events::SlackListener;
use super::failure::SlackCallError;
use super::inbound::moment;
use crate::bus::Publisher;
use crate::channels::ChannelError;
use crate::channels::backlog::{
    Backlog, HistoryPage, HistoryPages, PageError, Position, RateLimit, Unread,
};
use crate::channels::slack::sending::{self, PAGE, SlackAddress, messages, ts_of};
use crate::types::message::Address;

/// Maximum age of the first message of a thread that is checked for new replies, before the oldest missed
/// message. At most one page of such messages is read.
const ROOT_AGE_MAX: chrono::Duration = chrono::Duration::hours(24);

impl HistoryPages for SlackListener<'_> {
    /// The limit belongs to the method (conversations.history).
    const RATE_LIMIT: RateLimit = RateLimit::OfAll;
    /// An app may call it 50 times a minute (tier 3, conversations.history).
    const CHANNELS_MAX: usize = 40;
    const THREADS_MAX: usize = 40;
    const IS_IN_ORDER: bool = false;

    fn publisher(&self) -> &Publisher {
        self.publisher
    }

    fn backlog(&self) -> &Backlog {
        &self.slack.backlog
    }

    fn position_at(at: DateTime<Utc>) -> Position {
        Position(ts_of(at).0)
    }

    async fn page(&self, at: &Address, from: &Unread) -> Result<HistoryPage, PageError> {
        let to = SlackAddress::of(at)?;
        let (api, oldest) = (&self.slack.api, SlackTs(from.after.0.clone()));
        let cursor = from.cursor.clone().map(SlackCursorId);
        let mut page = messages(api, &to, Some(oldest), cursor).await?;
        // A channel's history contains only the first messages of its threads.
        let roots = match (&at.thread, &from.cursor) {
            (None, None) => roots(api, &to, &from.after.0).await?.messages,
            _ => Vec::new(),
        };
        let threads = match at.thread {
            Some(_) => Vec::new(),
            None => with_new_replies(at, &from.after.0, roots.iter().chain(&page.messages)),
        };
        let messages = std::mem::take(&mut page.messages);
        let next = page.next();
        let next = next.map(|cursor| Unread { cursor: Some(cursor.0), ..from.clone() });
        let mut events = Vec::new();
        for mut message in messages {
            let position = Position(field(&message, "ts").to_owned());
            // The history omits the fields that follow from the request.
            if let Some(event) = message.as_object_mut() {
                event.insert("channel".to_owned(), at.chat.as_str().into());
                event.entry("type").or_insert_with(|| "message".into());
            }
            events.push((position, self.decode(&message).await));
            // So that the link is served while two hundred messages are decoded.
            tokio::task::yield_now().await;
        }
        Ok(HistoryPage { events, next, threads })
    }

    async fn keep_backlog(&self) -> Result<(), ChannelError> {
        Ok(self.set_mark().await?)
    }
}

impl From<SlackCallError> for PageError {
    fn from(error: SlackCallError) -> Self {
        match (error.wait(), error) {
            (Some(wait), _) => Self::Limited(wait),
            (None, SlackCallError::Denied(denial)) if denial.is_permanent() => {
                Self::Never(denial.error_text)
            }
            // A rejected token ends the link anyway.
            (None, error) => Self::Later(error.while_asking().to_string()),
        }
    }
}

/// Returns the first messages of threads that began up to `since`.
async fn roots(
    api: &SlackApi,
    at: &SlackAddress,
    since: &str,
) -> Result<sending::MessagesPage, SlackCallError> {
    let Some(since_time) = moment(since) else { return Ok(sending::MessagesPage::default()) };
    let history = SlackApiConversationsHistoryRequest::new()
        .with_channel(at.channel.clone())
        .with_oldest(ts_of(since_time - ROOT_AGE_MAX))
        .with_latest(SlackTs(since.to_owned()))
        .with_inclusive(true)
        .with_limit(PAGE);
    api.call(&history).await
}

/// Returns the threads of a channel with replies after `since`, the latest first.
fn with_new_replies<'a>(
    at: &Address,
    since: &str,
    roots: impl Iterator<Item = &'a Value>,
) -> Vec<Address> {
    let mut roots_with_replies: Vec<_> =
        roots.filter(|root| field(root, "latest_reply") > since).collect();
    roots_with_replies.sort_by_key(|root| Reverse(field(root, "latest_reply")));
    let thread = |root: &&Value| Address { thread: Some(field(root, "ts").into()), ..at.clone() };
    roots_with_replies.iter().map(thread).collect()
}

fn field<'a>(message: &'a Value, name: &str) -> &'a str {
    message[name].as_str().unwrap_or_default()
}
