//! What was said while there was no link: Slack brings some of it again, but not all. Each place
//! where the bot was spoken to before is read from there on, and goes the way of every event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use slack_morphism::SlackTs;
use tokio::time::sleep;

use super::failure::CallError;
use super::hearing::Ears;
use super::sending::{Page, Spot, messages};
use crate::bus::PublishError;
use crate::message::{Address, MessageId};

/// Places that are looked at, the newest first: Slack lets an app look 50 times a minute
/// (tier 3, conversations.history).
const CHANNELS_MAX: usize = 40;
const THREADS_MAX: usize = 40;

/// How often and how long Slack may make us wait before we give it up.
const WAITS_MAX: usize = 10;
const WAIT_MAX: Duration = Duration::from_secs(120);

impl Ears<'_> {
    /// Best effort: whatever fails is logged, and the link goes on.
    pub(super) async fn catch_up(&self) {
        let heard = match self.publisher.last_heard().await {
            Ok(heard) => heard,
            Err(error) => {
                tracing::warn!(%error, "Cannot look up what was missed");
                return;
            }
        };
        let (channels, threads) = places(heard);
        let mut waits = 0;
        for (at, since) in channels.into_iter().chain(threads) {
            let found = match self.look(&at, &since, &mut waits).await {
                Ok(page) => page.messages,
                Err(error) => {
                    tracing::info!(%at, ?error, "Cannot look up what was missed here");
                    match error {
                        CallError::Denied(denial) if denial.is_no() => continue,
                        // It is not this place alone.
                        _ => return,
                    }
                }
            };
            if let Err(error) = self.take_in(&at, &since, found).await {
                tracing::warn!(%at, %error, "Cannot keep what was missed");
                return;
            }
        }
    }

    async fn look(&self, at: &Address, since: &str, waits: &mut usize) -> Result<Page, CallError> {
        let spot = Spot::of(at).map_err(|error| CallError::NotSent(error.to_string()))?;
        loop {
            let oldest = Some(SlackTs(since.to_owned()));
            match messages(&self.slack.api, &spot, oldest, None).await {
                Err(error) if *waits < WAITS_MAX => {
                    let Some(wait) = error.wait() else { return Err(error) };
                    *waits += 1;
                    sleep(wait.min(WAIT_MAX)).await;
                }
                found => return found,
            }
        }
    }

    async fn take_in(
        &self,
        at: &Address,
        since: &str,
        mut found: Vec<Value>,
    ) -> Result<(), PublishError> {
        let ts = |message: &Value| message["ts"].as_str().unwrap_or_default().to_owned();
        found.sort_by_key(ts);
        for mut message in found {
            // A thread is always told with its root.
            if ts(&message).as_str() <= since {
                continue;
            }
            // The history does not say what is plain where it stands.
            if let Some(event) = message.as_object_mut() {
                event.insert("channel".to_owned(), at.chat.as_str().into());
                event.entry("type").or_insert_with(|| "message".into());
            }
            self.accept_event(&message).await?;
        }
        Ok(())
    }
}

/// A place, and since when it is to be read.
type Since = (Address, String);

/// The channels, each since the newest that was heard in it, and the threads.
fn places(heard: Vec<(Address, MessageId)>) -> (Vec<Since>, Vec<Since>) {
    let mut newest: BTreeMap<Address, String> = BTreeMap::new();
    let mut order = Vec::new();
    let mut threads = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, id) in heard {
        let channel = Address { thread: None, ..at.clone() };
        if seen.insert(channel.clone()) {
            order.push(channel.clone());
        }
        let since = newest.entry(channel).or_default();
        if id.as_str() > since.as_str() {
            id.as_str().clone_into(since);
        }
        if at.thread.is_some() && threads.len() < THREADS_MAX {
            threads.push((at, id.as_str().to_owned()));
        }
    }
    let channels = order.into_iter().take(CHANNELS_MAX);
    let channels = channels.filter_map(|at| newest.remove(&at).map(|since| (at, since)));
    (channels.collect(), threads)
}
