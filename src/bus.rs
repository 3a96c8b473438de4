//! The in-process bus: the journal on the way in, the outbox on the way out, and a way to wake who
//! waits for either. A message is on it once, in the store.

mod admission;
mod arrivals;
pub mod asides;
pub mod freshness;
pub mod journal;
pub mod marks;
pub mod outbox;
pub mod overheard;

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use rusqlite::Connection;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::people::{Groups, People};
use crate::store::{Store, StoreError, Sync};
use crate::types::message::{Address, ChannelName, DedupKey, Inbound, Line, MessageId, SenderId};

pub use admission::{Received, receive};
pub use arrivals::Arrival;
use freshness::{ClockLag, Heard, since_boot};
use overheard::Overheard;

/// How long what is done is remembered: longer than any platform delivers again, or any catch-up
/// reaches back.
pub const KEPT: Duration = Duration::days(90);

/// How long a place that fell silent is looked at for what was missed.
const CAUGHT_UP: Duration = Duration::days(30);

/// The change that takes in a new message.
const PUBLISH: &str = "publish";

/// What is kept of a message that could not be read.
const RAW_CHARS_MAX: usize = 20_000;

/// Chats that may wait to be told that the store fails; more are told when they write again.
const REJECTED_MAX: usize = 64;

/// Wakes whoever watches. A wake-up between two looks is never missed.
#[derive(Clone)]
pub struct Wake(watch::Sender<()>);

impl Default for Wake {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Wake {
    pub fn up(&self) {
        self.0.send_replace(());
    }

    pub fn watch(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}

/// The bus, cheap to clone.
#[derive(Clone)]
pub struct Bus {
    pub store: Store,
    pub people: People,
    /// Rows wait in the journal.
    pub inbox: Wake,
    /// Rows wait in the outbox.
    pub outbox: Wake,
    /// Jobs were changed, or runs of them have ended.
    pub jobs: Wake,
    /// Messages that may wait at one address.
    pub waiting_max: usize,
    pub overheard: Overheard,
    pub clock_lag: ClockLag,
}

impl Bus {
    pub fn new(store: Store, people: People, waiting_max: usize) -> Self {
        let (inbox, outbox, jobs) = (Wake::default(), Wake::default(), Wake::default());
        Self {
            store,
            people,
            inbox,
            outbox,
            jobs,
            waiting_max,
            overheard: Overheard::default(),
            clock_lag: ClockLag::default(),
        }
    }

    /// A channel's way onto the bus, and where it says that the store took nothing.
    pub fn publisher(&self, channel: &ChannelName, link: Arc<Link>) -> (Publisher, Rejected) {
        let (rejected, told) = mpsc::channel(REJECTED_MAX);
        let publisher = Publisher { bus: self.clone(), channel: channel.clone(), link, rejected };
        (publisher, told)
    }
}

/// Addresses whose messages the store could not take.
pub type Rejected = mpsc::Receiver<Address>;

/// The store could not take a message; it was not accepted and must not be acknowledged.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep what arrived: {0}")]
pub struct PublishError(#[from] pub StoreError);

/// What became of a message; each of them may be acknowledged to the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    Accepted,
    /// It had been accepted before.
    Repeated,
    /// It cannot be taken, and its sender was told so where that is polite.
    TurnedAway,
    /// Too many wait there already; its sender was told so.
    Full,
    /// A button was pressed by somebody who may not.
    NotYours,
    /// Another button of the question was pressed before.
    Decided,
    /// A button of a question that nobody remembers.
    Gone,
}

/// A channel's way onto the bus.
pub struct Publisher {
    bus: Bus,
    channel: ChannelName,
    link: Arc<Link>,
    rejected: mpsc::Sender<Address>,
}

impl Publisher {
    pub fn channel(&self) -> &ChannelName {
        &self.channel
    }

    /// When the bot answers in a group, which the config may name by any of these ids, the closest
    /// first.
    pub fn groups<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Groups {
        let access = self.bus.people.access(&self.channel);
        access.map(|access| access.listed(ids).unwrap_or(access.groups)).unwrap_or_default()
    }

    /// Whether another bot may speak to this one.
    pub fn lets_bot(&self, id: &SenderId) -> bool {
        let access = self.bus.people.access(&self.channel);
        access.is_some_and(|access| access.bots.iter().any(|bot| bot == id.as_str()))
    }

    /// Admits a message and commits it to the journal. When this returns `Ok`, the platform may be
    /// told that the message has arrived.
    pub async fn publish(&self, inbound: Inbound) -> Result<Published, PublishError> {
        self.take(PUBLISH, inbound, admission::admit).await
    }

    /// A message was changed: while it waits, so does what it says now. One that was not known
    /// did not speak to the bot before, and is published.
    pub async fn edit(&self, inbound: Inbound) -> Result<Published, PublishError> {
        self.take("edit", inbound, admission::edit).await
    }

    /// A message was changed that does not speak to the bot by itself: while it waits, so does what
    /// it says now. False if it was not known; then nothing was done.
    pub async fn amend(&self, inbound: Inbound) -> Result<bool, PublishError> {
        let key = inbound.key.clone();
        let is_known = self.bus.store.read(move |store| journal::has(store, &key)).await?;
        if is_known {
            self.edit(inbound).await?;
        }
        Ok(is_known)
    }

    async fn take(
        &self,
        label: &'static str,
        inbound: Inbound,
        take: fn(&Connection, &Bus, Inbound) -> rusqlite::Result<Published>,
    ) -> Result<Published, PublishError> {
        // One that was changed was said before.
        self.heard_event((label == PUBLISH).then_some(&inbound));
        let (from, bus) = (inbound.from.clone(), self.bus.clone());
        let taken = move |store: &Connection| take(store, &bus, inbound);
        match self.bus.store.write(label, Sync::Now, taken).await {
            Ok(published) => {
                self.bus.inbox.up();
                self.bus.outbox.up();
                Ok(published)
            }
            Err(error) => {
                self.rejected.try_send(from).ok();
                Err(error.into())
            }
        }
    }

    /// Notes that messages came, and by how much the clocks differ if they have just been said.
    fn heard_event<'a>(&self, messages: impl IntoIterator<Item = &'a Inbound>) {
        let now = Utc::now();
        let mut is_steady = false;
        self.link.heard(|state| {
            state.last_event = Some(now);
            is_steady = state.heard.is_some_and(Heard::is_steady);
        });
        let last = messages.into_iter().filter(|it| it.body.press.is_none()).last();
        if let Some(message) = last.filter(|_| is_steady) {
            self.bus.clock_lag.note(now - message.at);
        }
    }

    /// A message was deleted: if nothing has begun with it, nothing will.
    pub async fn withdraw(
        &self,
        at: &Address,
        id: &MessageId,
        key: DedupKey,
    ) -> Result<(), PublishError> {
        self.bus.overheard.forget(at, id);
        let withdraw = move |store: &Connection| journal::take_back(store, &key);
        self.bus.store.write("withdraw", Sync::Now, withdraw).await?;
        // Others may have waited behind its files.
        self.bus.inbox.up();
        Ok(())
    }

    /// A line that does not speak to the bot. Kept in memory, as context for one that will.
    pub fn overheard(&self, at: &Address, id: MessageId, line: Line) {
        self.link.heard(|state| state.last_event = Some(Utc::now()));
        self.bus.overheard.push(at, id, line);
    }

    /// An overheard line was changed: while it is remembered, so is what it says now.
    pub fn reword_overheard(&self, at: &Address, id: &MessageId, line: Line) {
        self.bus.overheard.reword(at, id, line);
    }

    /// An overheard line is not context any more.
    pub fn forget_overheard(&self, at: &Address, id: &MessageId) {
        self.bus.overheard.forget(at, id);
    }

    /// Whether the bot was spoken to at this address before.
    pub async fn takes_part(&self, at: &Address) -> Result<bool, PublishError> {
        let at = at.clone();
        Ok(self.bus.store.read(move |store| journal::knows(store, &at)).await?)
    }

    /// The newest message of each address that has lately spoken to the bot: where to look for what
    /// was missed. The newest place first.
    pub async fn last_heard(&self) -> Result<Vec<(Address, MessageId)>, PublishError> {
        let (channel, since) = (self.channel.clone(), Utc::now() - CAUGHT_UP);
        let last = move |store: &Connection| journal::last_heard(store, &channel, since);
        Ok(self.bus.store.read(last).await?)
    }

    /// Keeps what could not be read, for a person to look at.
    pub async fn keep_raw(&self, key: DedupKey, raw: String) -> Result<(), PublishError> {
        tracing::warn!(channel = %self.channel, %key, "Kept a message that could not be read");
        let channel = self.channel.clone();
        let raw = raw_bounded(&raw);
        let keep = move |store: &Connection| journal::keep_raw(store, &key, &channel, &raw);
        Ok(self.bus.store.write("keep raw", Sync::Now, keep).await?)
    }

    /// Notes that the platform's server was heard from just now.
    pub fn heard_byte(&self) {
        self.link.heard(|_| {});
    }

    /// Notes that the platform has accepted our token. `about` is shown by `status`.
    pub fn link_up(&self, about: String) {
        self.link.heard(|state| {
            state.ups += u64::from(!state.up);
            state.up = true;
            state.about = about;
        });
    }

    /// Notes that the link has ended and is being made anew. `reason` is shown by `status`.
    pub fn link_lost(&self, reason: &str) {
        self.link.down(reason);
    }

    /// The channel's own durable mark (an offset, say), and when it was set.
    pub async fn mark(&self) -> Result<Option<(String, DateTime<Utc>)>, PublishError> {
        let channel = self.channel.clone();
        Ok(self.bus.store.read(move |store| marks::of_channel(store, &channel)).await?)
    }

    pub async fn set_mark(&self, mark: String) -> Result<(), PublishError> {
        let channel = self.channel.clone();
        let set = move |store: &Connection| marks::set_of_channel(store, &channel, &mark);
        self.bus.store.write("mark", Sync::Later, set).await?;
        Ok(())
    }
}

/// As much of what could not be read as is kept.
fn raw_bounded(raw: &str) -> String {
    raw.chars().take(RAW_CHARS_MAX).collect()
}

/// How a channel's link to its platform is, for `status`.
#[derive(Default)]
pub struct Link(
    // Woken are those who wait for the link to go up or down.
    watch::Sender<LinkState>,
);

#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct LinkState {
    pub up: bool,
    /// How often it has come up since the start.
    #[serde(skip)]
    pub ups: u64,
    pub about: String,
    pub last_byte: Option<DateTime<Utc>>,
    pub last_event: Option<DateTime<Utc>>,
    /// Since it was last down.
    #[serde(skip)]
    pub heard: Option<Heard>,
    /// Why it is down.
    pub trouble: Option<String>,
}

impl Link {
    pub fn state(&self) -> LinkState {
        self.0.borrow().clone()
    }

    /// Wakes when the link goes up or down.
    pub fn watch(&self) -> watch::Receiver<LinkState> {
        self.0.subscribe()
    }

    pub fn down(&self, trouble: &str) {
        self.0.send_modify(|state| {
            state.up = false;
            state.heard = None;
            state.trouble = Some(trouble.to_owned());
        });
    }

    /// Waits until the link has been up for so long without a break.
    pub async fn holds(&self, steady: std::time::Duration) {
        let mut state = self.0.subscribe();
        loop {
            state.wait_for(|state| state.up).await.expect("we have the sender");
            if timeout(steady, state.wait_for(|state| !state.up)).await.is_err() {
                return;
            }
        }
    }

    fn heard(&self, change: impl FnOnce(&mut LinkState)) {
        self.0.send_if_modified(|state| {
            let was_up = state.up;
            state.last_byte = Some(Utc::now());
            state.heard = Some(Heard::again(state.heard, since_boot()));
            state.trouble = None;
            change(state);
            state.up != was_up
        });
    }
}
