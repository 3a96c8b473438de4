//! Reads messages that were sent before the bot was addressed.

use serde_json::Value;

use super::Slack;
use super::failure::SlackCallError;
use super::sending::{SlackAddress, messages};
use crate::channels::ChannelError;
use crate::channels::routing::InboundEvent;
use crate::channels::slack::inbound::{self, SlackReadingContext};
use crate::types::message::{Address, MessageId, OverheardLine};

/// Maximum number of pages that are read to reach a thread's end.
const PAGES_MAX: usize = 5;

impl Slack {
    /// Returns the last messages at an address, oldest first.
    pub(super) async fn read_before(
        &self,
        at: &Address,
        before: Option<&MessageId>,
        max: usize,
    ) -> Result<Vec<OverheardLine>, ChannelError> {
        let target = SlackAddress::of(at)?;
        let bot = self.known_identity().await?;
        let mut found: Vec<Value> = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = match messages(&self.api, &target, None, cursor).await {
                Ok(page) => page,
                // Slack does not show these messages.
                Err(SlackCallError::Denied(denial)) if denial.is_permanent() => {
                    return Ok(Vec::new());
                }
                Err(error) => return Err(error.while_asking()),
            };
            found.extend(page.messages.iter().cloned());
            cursor = page.next();
            // Slack returns channels from their end, and threads from their beginning.
            if cursor.is_none() || target.thread.is_none() && found.len() > max {
                break;
            }
        }
        let ts = |message: &Value| message["ts"].as_str().unwrap_or_default().to_owned();
        found.sort_by_key(ts);
        found.dedup_by_key(|message| ts(message));
        found.retain(|message| before.is_none_or(|before| ts(message).as_str() < before.as_str()));
        let mut lines = Vec::new();
        for mut event in found.split_off(found.len().saturating_sub(max)) {
            if event["user"] == bot.user {
                let text =
                    super::mrkdwn::plain(event["text"].as_str().unwrap_or_default(), &|id| {
                        id.to_owned()
                    });
                let sent_at = inbound::moment(event["ts"].as_str().unwrap_or_default());
                lines.extend(sent_at.map(|at| OverheardLine {
                    at,
                    author: bot.name.clone(),
                    text,
                }));
                continue;
            }
            event["channel"] = at.chat.as_str().into();
            let people = inbound::people(&event);
            let names = self.names.of(&people, &self.api, self.deadlines.names).await;
            let (bot, channel, threads) = (&bot, &at.channel, self.threads);
            let context = SlackReadingContext { bot, channel, threads, names: &names };
            if let InboundEvent::New(message) = inbound::decode(&event, &context) {
                lines.extend(message.line());
            }
        }
        Ok(lines)
    }
}
