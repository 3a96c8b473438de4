//! Accepts a batch of a platform's events in one transaction: a batch costs one sync, and the channel's
//! mark none of its own.

use rusqlite::Connection;

use super::{Bus, PublishError, Published, Publisher, admission, journal, marks, raw_bounded};
use crate::store::Sync;
use crate::types::message::{Address, ChannelName, DedupKey, Inbound, MessageId};

/// An event of a platform.
#[derive(Clone)]
pub enum Arrival {
    /// A message that addresses the bot. See [`Publisher::publish`].
    New(Inbound),
    /// An edited message. See [`Publisher::edit`].
    Changed(Inbound),
    /// An edited message that does not address the bot by itself. See [`Publisher::amend`].
    Amended(Inbound),
    /// A deleted message. See [`Publisher::withdraw`].
    Withdrawn { at: Address, id: MessageId, key: DedupKey },
    /// An unreadable event. See [`Publisher::keep_raw`].
    Unreadable { key: DedupKey, raw: String },
}

impl Publisher {
    /// Accepts events in order, and sets the channel's mark: all in one transaction, or, if that fails,
    /// one by one up to the first that cannot be accepted. When this returns `Ok`, they may be
    /// acknowledged to the platform. Returns the outcome of each message. None for one that was not
    /// known, was withdrawn, or is unreadable. Overheard lines are up to the caller.
    pub async fn publish_all(
        &self,
        arrivals: Vec<Arrival>,
        mark: Option<String>,
    ) -> Result<Vec<Option<Published>>, PublishError> {
        if arrivals.is_empty() {
            // If they are repeated after a crash, nothing is accepted either: the next mark suffices.
            return Ok(Vec::new());
        }
        if arrivals.len() == 1 && mark.is_none() {
            return self.publish_each(arrivals, None).await;
        }
        let (bus, channel) = (self.bus.clone(), self.channel.clone());
        let (together, marked) = (arrivals.clone(), mark.clone());
        let take_all = move |store: &Connection| {
            let taken = together.into_iter().map(|arrival| take(store, &bus, &channel, arrival));
            let taken = taken.collect::<rusqlite::Result<Vec<_>>>()?;
            marked.map_or(Ok(()), |mark| marks::set_of_channel(store, &channel, &mark))?;
            Ok(taken)
        };
        self.note_arrivals(arrivals.iter().filter_map(|arrival| match arrival {
            Arrival::New(inbound) => Some(inbound),
            Arrival::Changed(_)
            | Arrival::Amended(_)
            | Arrival::Withdrawn { .. }
            | Arrival::Unreadable { .. } => None,
        }));
        match self.bus.store.write("publish", Sync::Now, take_all).await {
            Ok(taken) => {
                self.bus.inbox.up();
                self.bus.outbox.up();
                Ok(taken)
            }
            Err(error) => {
                tracing::warn!(channel = %self.channel, %error, "Cannot store messages together, will store them one by one");
                self.publish_each(arrivals, mark).await
            }
        }
    }

    async fn publish_each(
        &self,
        arrivals: Vec<Arrival>,
        mark: Option<String>,
    ) -> Result<Vec<Option<Published>>, PublishError> {
        let mut taken = Vec::new();
        for arrival in arrivals {
            taken.push(match arrival {
                Arrival::New(inbound) => Some(self.publish(inbound).await?),
                Arrival::Changed(inbound) => Some(self.edit(inbound).await?),
                Arrival::Amended(inbound) => {
                    self.amend(inbound).await?.then_some(Published::Repeated)
                }
                Arrival::Withdrawn { at, id, key } => {
                    self.withdraw(&at, &id, key).await?;
                    None
                }
                Arrival::Unreadable { key, raw } => {
                    self.keep_raw(key, raw).await?;
                    None
                }
            });
        }
        if let Some(mark) = mark {
            self.set_mark(mark).await?;
        }
        Ok(taken)
    }
}

fn take(
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
        Arrival::Withdrawn { key, .. } => journal::take_back(store, &key).map(|()| None),
        Arrival::Unreadable { key, raw } => {
            tracing::warn!(%channel, %key, "Stored a message raw, because it could not be read");
            journal::keep_raw(store, &key, channel, &raw_bounded(&raw)).map(|_| None)
        }
    }
}
