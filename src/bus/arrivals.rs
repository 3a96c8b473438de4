//! Accepts a batch of a platform's events in one transaction, so that a batch costs one sync, which
//! includes the channel's mark.

use rusqlite::Connection;

use super::{Bus, PublishError, Published, Publisher, admission, journal, marks};
use crate::short_text::first_chars;
use crate::store::{StoreError, Sync};
use crate::types::message::{ChannelName, DedupKey, Inbound};

/// Maximum length of a stored unreadable event, in characters.
const RAW_CHARS_MAX: usize = 20_000;

/// A routed event, ready to be admitted and stored.
#[derive(Clone)]
pub enum Arrival {
    /// A message that addresses the bot. It is admitted, and committed to the journal.
    New(Inbound),
    /// An edited message. Its content is replaced while it waits. An unknown one did not address the bot
    /// before, and is published.
    Changed(Inbound),
    /// An edited message that does not address the bot by itself. Its content is replaced while it waits.
    /// An unknown one is ignored.
    Amended(Inbound),
    /// A deleted message. It is withdrawn if it still waits.
    Withdrawn { key: DedupKey },
    /// An unreadable event. It is stored for a person to look at.
    Unreadable { key: DedupKey, raw: String },
}

impl Publisher {
    /// Accepts a message that addresses the bot. When this returns `Ok`, it may be acknowledged to the
    /// platform.
    pub async fn publish(&self, inbound: Inbound) -> Result<Published, PublishError> {
        let published = self.publish_one(Arrival::New(inbound)).await?;
        Ok(published.expect("each new message has an outcome"))
    }

    /// Accepts events in order, and sets the channel's mark: all in one transaction, or, if that fails,
    /// one by one up to the first that cannot be accepted. When this returns `Ok`, they may be
    /// acknowledged to the platform. Returns the outcome of each event; None for an unknown, withdrawn or
    /// unreadable one. The caller handles overheard lines.
    pub async fn publish_all(
        &self,
        arrivals: Vec<Arrival>,
        mark: Option<String>,
    ) -> Result<Vec<Option<Published>>, PublishError> {
        if arrivals.is_empty() {
            // A crash before the next mark only repeats events that are ignored again.
            return Ok(Vec::new());
        }
        if arrivals.len() > 1 || mark.is_some() {
            match self.commit(arrivals.clone(), mark.clone()).await {
                Ok(published) => return Ok(published),
                Err(error) => {
                    tracing::warn!(channel = %self.channel, %error, "Cannot store messages together, will store them one by one");
                }
            }
        }
        let mut published = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            published.push(self.publish_one(arrival).await?);
        }
        if let Some(mark) = mark {
            self.set_mark(mark).await?;
        }
        Ok(published)
    }

    async fn publish_one(&self, arrival: Arrival) -> Result<Option<Published>, PublishError> {
        let from = match &arrival {
            Arrival::Amended(inbound) => {
                // Most edits in a group do not concern the bot: a read is cheaper than a transaction.
                let key = inbound.key.clone();
                if !self.bus.store.read(move |store| journal::has(store, &key)).await? {
                    return Ok(None);
                }
                Some(inbound.from.clone())
            }
            Arrival::New(inbound) | Arrival::Changed(inbound) => Some(inbound.from.clone()),
            Arrival::Withdrawn { .. } | Arrival::Unreadable { .. } => None,
        };
        match self.commit(vec![arrival], None).await {
            Ok(published) => Ok(published.into_iter().next().flatten()),
            Err(error) => {
                if let Some(from) = from {
                    self.rejected.try_send(from).ok();
                }
                Err(error.into())
            }
        }
    }

    /// Accepts events, and sets the channel's mark, in one transaction.
    async fn commit(
        &self,
        arrivals: Vec<Arrival>,
        mark: Option<String>,
    ) -> Result<Vec<Option<Published>>, StoreError> {
        // Edited messages do not count: they were sent earlier.
        self.note_arrivals(arrivals.iter().filter_map(|arrival| match arrival {
            Arrival::New(inbound) => Some(inbound),
            Arrival::Changed(_)
            | Arrival::Amended(_)
            | Arrival::Withdrawn { .. }
            | Arrival::Unreadable { .. } => None,
        }));
        let (bus, channel) = (self.bus.clone(), self.channel.clone());
        let accept_all = move |store: &Connection| {
            let outcomes =
                arrivals.into_iter().map(|arrival| accept_arrival(store, &bus, &channel, arrival));
            let outcomes = outcomes.collect::<rusqlite::Result<Vec<_>>>()?;
            mark.map_or(Ok(()), |mark| marks::set_of_channel(store, &channel, &mark))?;
            Ok(outcomes)
        };
        let published = self.bus.store.write("publish", Sync::Now, accept_all).await?;
        self.bus.inbox.notify();
        self.bus.outbox.notify();
        Ok(published)
    }
}

fn accept_arrival(
    store: &Connection,
    bus: &Bus,
    channel: &ChannelName,
    arrival: Arrival,
) -> rusqlite::Result<Option<Published>> {
    match arrival {
        Arrival::New(inbound) => admission::admit(store, bus, inbound).map(Some),
        Arrival::Changed(inbound) => admission::edit(store, bus, inbound).map(Some),
        Arrival::Amended(inbound) => match journal::has(store, &inbound.key)? {
            true => admission::edit(store, bus, inbound).map(Some),
            false => Ok(None),
        },
        Arrival::Withdrawn { key } => journal::withdraw_by_key(store, &key).map(|()| None),
        Arrival::Unreadable { key, raw } => {
            tracing::warn!(%channel, %key, "Stored a message raw, because it could not be read");
            journal::store_unreadable(store, &key, channel, first_chars(&raw, RAW_CHARS_MAX))
                .map(|_| None)
        }
    }
}
