//! What was missed, read back place by place. A place that cannot be read just now is read later,
//! beside what is said; nobody else waits for it.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::sleep;

use super::channel_id;
use super::endpoints::Endpoint;
use super::hearing::{Ear, Heard};
use super::inbound;
use crate::channels::ChannelError;
use crate::channels::discord::wire::{self, Message};
use crate::types::message::{Address, MessageId};

/// Messages of one look (Message resource, get channel messages).
const PAGE: usize = 100;

/// What is read of one place at a time; the rest is read later, so that others get their turn.
const MISSED_MAX: usize = 500;

/// Looks at a place that fails, before others are looked at.
const TRIES: u32 = 3;
const TRY_PAUSE: Duration = Duration::from_millis(500);

/// How far Discord's clock and ours may be apart.
const SKEW: chrono::Duration = chrono::Duration::minutes(5);

/// A place that is to be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// After which message.
    after: u64,
    /// Until when all was heard already.
    until: Option<DateTime<Utc>>,
}

impl Unread {
    /// As a word that outlives the program.
    pub(super) fn mark(&self, place: &str) -> String {
        let until = self.until.map(|until| until.timestamp_millis().to_string());
        format!("{place}:{}:{}", self.after, until.unwrap_or_default())
    }

    /// Reads what [`Self::mark`] wrote, with the place.
    pub(super) fn from_mark(mark: &str) -> Option<(String, Self)> {
        let mut parts = mark.split(':');
        let (place, after, until) = (parts.next()?, parts.next()?, parts.next()?);
        let until = until.parse().ok().and_then(DateTime::from_timestamp_millis);
        Some((place.to_owned(), Self { after: after.parse().ok()?, until }))
    }
}

/// Why a place could not be read.
enum Trouble {
    /// It will not be readable.
    Never(String),
    /// It is this place, or this moment.
    Now(ChannelError),
    /// Nothing else would go better.
    Link(ChannelError),
}

impl From<ChannelError> for Trouble {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Refused(reason) => Self::Never(reason),
            ChannelError::Closed(_) => Self::Link(error),
            ChannelError::Unavailable { .. }
            | ChannelError::Ambiguous(_)
            | ChannelError::DraftGone => Self::Now(error),
        }
    }
}

impl Ear<'_> {
    /// Notes that there is to be read back what was said while nobody listened, in all places where
    /// the bot was spoken to.
    pub(super) async fn note_unread(&self) -> Result<(), ChannelError> {
        let heard = self.publisher.last_heard().await?;
        let mut progress = self.discord.progress();
        let until = progress.until;
        // What came before was heard, whether it was for the bot or not.
        let all_heard = until.map_or(0, |until| wire::id_before(until - SKEW));
        for (place, last) in places(&heard) {
            let after = last.max(all_heard);
            let unread = progress.unread.entry(place).or_insert(Unread { after, until });
            unread.after = unread.after.min(after);
        }
        Ok(())
    }

    /// Reads what could not be read at first, or before a restart, for as long as there is a link;
    /// gives why that ended.
    pub(super) async fn read_later(&self, mut pause: Duration) -> ChannelError {
        loop {
            sleep(pause).await;
            if let Err(error) = self.read_unread().await {
                return error;
            }
            pause = self.discord.deadlines.again;
        }
    }

    /// Looks at each place once; those that could be read, or never will be, are done with.
    pub(super) async fn read_unread(&self) -> Result<(), ChannelError> {
        let unread = self.discord.progress().unread.clone();
        if unread.is_empty() {
            return Ok(());
        }
        for (place, from) in unread {
            let rest = match self.read_patiently(&place, from).await {
                Ok(rest) => rest,
                Err(Trouble::Never(reason)) => {
                    tracing::debug!(place, reason, "Cannot read back what was said here");
                    None
                }
                Err(Trouble::Now(error)) => {
                    tracing::warn!(place, %error, "Will read back later what was said here");
                    continue;
                }
                Err(Trouble::Link(error)) => return Err(error),
            };
            let mut progress = self.discord.progress();
            match rest {
                Some(after) => progress.unread.insert(place, Unread { after, ..from }),
                None => progress.unread.remove(&place),
            };
        }
        // What has been read need not be read again by a daemon after this one.
        self.discord.mark(true, self.publisher).await
    }

    async fn read_patiently(&self, place: &str, from: Unread) -> Result<Option<u64>, Trouble> {
        for _ in 1..TRIES {
            match self.read_back(place, from).await {
                // It says itself when it may be asked again, and that is not soon.
                Err(Trouble::Now(ChannelError::Unavailable { after: None, .. })) => {
                    sleep(TRY_PAUSE).await;
                }
                read => return read,
            }
        }
        self.read_back(place, from).await
    }

    /// Gives after which message to go on, if there is more.
    async fn read_back(&self, place: &str, from: Unread) -> Result<Option<u64>, Trouble> {
        let channel_id = channel_id(place).map_err(Trouble::Never)?;
        let mut after = from.after;
        for _ in 0..MISSED_MAX / PAGE {
            let query = [("after", after.to_string()), ("limit", PAGE.to_string())];
            let endpoint = Endpoint::Messages(channel_id);
            let page = self.discord.api.get::<Vec<Value>>(endpoint, &query).await;
            let page = page.map_err(|error| Trouble::from(error.while_asking()))?;
            self.publisher.heard_byte();
            let mut missed: Vec<_> = page.iter().map(|raw| (id_of(raw), raw)).collect();
            missed.sort_by_key(|(id, _)| *id);
            let Some((last, _)) = missed.last() else { return Ok(None) };
            let last = *last;
            // What REST gives does not say which server it is of; nothing is for the bot that was
            // perhaps said to others.
            let spot = self.discord.spots.look(&self.discord.api, place).await?;
            let Some(spot) = spot else {
                return Err(Trouble::Never("the bot may not look at this channel".to_owned()));
            };
            for (_, raw) in &missed {
                let Ok(message) = Message::deserialize(*raw) else {
                    self.keep_raw(raw).await.map_err(Trouble::Link)?;
                    continue;
                };
                if inbound::is_speech(&message, self.bot, |id| self.publisher.lets_bot(id)) {
                    let heard = Heard::Missed { until: from.until };
                    self.take(&message, &spot, heard).await.map_err(Trouble::Link)?;
                }
            }
            if missed.len() < PAGE {
                return Ok(None);
            }
            after = last;
        }
        tracing::info!(place, "More was said here than is read back at once");
        Ok(Some(after))
    }
}

/// The channels to look in, and after which message. What begins a thread stands in the channel
/// around it, so that is looked at too: ids are in the order of time over all of Discord.
fn places(heard: &[(Address, MessageId)]) -> BTreeMap<String, u64> {
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    for (at, last) in heard {
        let last = wire::order_of(last.as_str());
        for place in [Some(at.chat.as_str()), at.thread.as_ref().map(|thread| thread.as_str())] {
            let Some(place) = place else { continue };
            let newest = places.entry(place.to_owned()).or_default();
            *newest = last.max(*newest);
        }
    }
    places
}

fn id_of(raw: &Value) -> u64 {
    raw["id"].as_str().map(wire::order_of).unwrap_or_default()
}
