//! What was said while there was no link: Slack brings some of it again, but not all. Each place
//! where the bot was spoken to before is read from there on, and goes the way of every event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use slack_morphism::api::SlackApiConversationsHistoryRequest;
use slack_morphism::{SlackCursorId, SlackTs};
use tokio::time::sleep;

use super::call::Api;
use super::failure::CallError;
use super::hearing::Ears;
use super::inbound::moment;
use super::progress::{Missed, Progress};
use super::sending::{PAGE, Page, Spot, messages, ts_of};
use crate::bus::PublishError;
use crate::types::message::{Address, MessageId};

/// Places that are looked at, the newest first: Slack lets an app look 50 times a minute
/// (tier 3, conversations.history).
const CHANNELS_MAX: usize = 40;
const THREADS_MAX: usize = 40;

/// All of them, with as many threads again that the bot has not been in.
const PLACES_MAX: usize = CHANNELS_MAX + 2 * THREADS_MAX;

/// How often and how long Slack may make us wait before we give it up.
const WAITS_MAX: usize = 10;
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Pages that are turned in one place; Slack gives 200 messages on each.
const PAGES_MAX: usize = 5;

/// How long before what is looked up a thread may have begun that has grown since; no more than a
/// page of those.
const ROOT_AGE_MAX: chrono::Duration = chrono::Duration::hours(24);

/// What was found in one place.
#[derive(Default)]
struct Look {
    messages: Vec<Value>,
    /// Older ones, in whose threads something may have been missed.
    roots: Vec<Value>,
    /// Where to go on, if there is more.
    cursor: Option<String>,
}

impl Ears<'_> {
    /// Best effort: what fails is logged and tried again, and the link goes on. What is not done
    /// when the link ends is left to the next one, or to a daemon after this one.
    pub(super) async fn catch_up(&self) {
        self.progress().is_noted = false;
        while let Err(error) = self.note_missed().await {
            tracing::warn!(%error, "Cannot look up what was missed");
            sleep(self.slack.deadlines.again).await;
        }
        loop {
            self.look_around().await;
            if let Err(error) = self.set_mark().await {
                tracing::warn!(%error, "Cannot note what was looked up");
            }
            if self.progress().missed.is_empty() {
                return;
            }
            sleep(self.slack.deadlines.again).await;
        }
    }

    /// An event is acknowledged that tells this time.
    pub(super) async fn heard_until(&self, event: &Value) -> Result<(), PublishError> {
        let ts = event["event_ts"].as_str().or(event["ts"].as_str()).unwrap_or_default();
        if self.progress().hear(ts) { self.set_mark().await } else { Ok(()) }
    }

    async fn set_mark(&self) -> Result<(), PublishError> {
        let mark = self.progress().mark(&self.bot.user);
        self.publisher.set_mark(mark).await
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.slack.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where something may have been missed, durably: what is heard from here on does not
    /// make up for it.
    async fn note_missed(&self) -> Result<(), PublishError> {
        if !self.progress().is_restored {
            let mark = self.publisher.mark().await?;
            let mut progress = self.progress();
            progress.is_restored = true;
            if let Some((mark, _)) = mark {
                progress.restore(&mark, &self.bot.user, self.publisher.channel());
            }
        }
        let (channels, threads) = places(self.publisher.last_heard().await?);
        {
            let mut progress = self.progress();
            let all_heard = progress.all_heard();
            for (at, since) in channels.into_iter().chain(threads) {
                progress.note(at, since.max(all_heard.clone()));
            }
            progress.is_noted = true;
        }
        self.set_mark().await
    }

    /// Looks at each place once; those that could be read, or never will be, are done with.
    async fn look_around(&self) {
        let mut waits = 0;
        // Channels first, and then what lies in them.
        for of_threads in [false, true] {
            let missed = self.progress().missed.clone();
            for (at, from) in missed.into_iter().filter(|(at, _)| at.thread.is_some() == of_threads)
            {
                let cursor = match self.look(&at, &from, &mut waits).await {
                    Ok(mut look) => {
                        let cursor = look.cursor.take();
                        if let Err(error) = self.take_in(&at, &from.since, look).await {
                            tracing::warn!(%at, %error, "Cannot keep what was missed");
                            return;
                        }
                        cursor
                    }
                    Err(CallError::Denied(denial)) if denial.is_no() => {
                        tracing::info!(%at, ?denial, "Cannot look up what was missed here");
                        None
                    }
                    Err(error) => {
                        tracing::info!(%at, ?error, "Will look up later what was missed here");
                        continue;
                    }
                };
                if cursor.is_some() {
                    tracing::info!(%at, "More was said here than is looked up at once");
                    self.progress().missed.insert(at, Missed { cursor, ..from });
                } else {
                    self.progress().missed.remove(&at);
                }
            }
        }
    }

    async fn look(
        &self,
        at: &Address,
        from: &Missed,
        waits: &mut usize,
    ) -> Result<Look, CallError> {
        let mut look = Look::default();
        let Ok(spot) = Spot::of(at) else { return Ok(look) };
        let (api, oldest) = (&self.slack.api, Some(SlackTs(from.since.clone())));
        let mut cursor = from.cursor.clone().map(SlackCursorId);
        for _ in 0..PAGES_MAX {
            let ask = || messages(api, &spot, oldest.clone(), cursor.clone());
            let page = patiently(waits, ask).await?;
            look.messages.extend(page.messages.iter().cloned());
            cursor = page.next();
            if cursor.is_none() {
                break;
            }
        }
        look.cursor = cursor.map(|cursor| cursor.0);
        if at.thread.is_none() && from.cursor.is_none() {
            look.roots = patiently(waits, || roots(api, &spot, &from.since)).await?.messages;
        }
        Ok(look)
    }

    async fn take_in(&self, at: &Address, since: &str, look: Look) -> Result<(), PublishError> {
        let Look { messages: mut found, roots, .. } = look;
        if at.thread.is_none() {
            self.note_threads(at, since, roots.iter().chain(&found));
        }
        found.sort_by_key(|message| field(message, "ts").to_owned());
        for mut message in found {
            // A thread is always told with its root.
            if field(&message, "ts") <= since {
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

    /// A channel tells only what its threads hang on: those that have grown are looked at too.
    fn note_threads<'a>(&self, at: &Address, since: &str, roots: impl Iterator<Item = &'a Value>) {
        let mut grown: Vec<_> = roots.filter(|root| field(root, "latest_reply") > since).collect();
        grown.sort_by_key(|root| Reverse(field(root, "latest_reply")));
        let mut progress = self.progress();
        for root in grown {
            let at = Address { thread: Some(field(root, "ts").into()), ..at.clone() };
            if progress.missed.contains_key(&at) {
                continue;
            }
            if progress.missed.len() >= PLACES_MAX {
                tracing::info!(%at, "Too many threads have grown to look at each");
                break;
            }
            progress.note(at, since.to_owned());
        }
    }
}

/// Asks as slowly as Slack wants.
async fn patiently<Asking: Future<Output = Result<Page, CallError>>>(
    waits: &mut usize,
    ask: impl Fn() -> Asking,
) -> Result<Page, CallError> {
    loop {
        match ask().await {
            Err(error) if *waits < WAITS_MAX => {
                let Some(wait) = error.wait() else { return Err(error) };
                *waits += 1;
                sleep(wait.min(WAIT_MAX)).await;
            }
            page => return page,
        }
    }
}

/// What threads hang on that began up to `since`.
async fn roots(api: &Api, at: &Spot, since: &str) -> Result<Page, CallError> {
    let Some(begun) = moment(since) else { return Ok(Page::default()) };
    let history = SlackApiConversationsHistoryRequest::new()
        .with_channel(at.channel.clone())
        .with_oldest(ts_of(begun - ROOT_AGE_MAX))
        .with_latest(SlackTs(since.to_owned()))
        .with_inclusive(true)
        .with_limit(PAGE);
    api.call(&history).await
}

fn field<'a>(message: &'a Value, name: &str) -> &'a str {
    message[name].as_str().unwrap_or_default()
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
