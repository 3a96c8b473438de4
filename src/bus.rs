//! The in-process bus: the journal of incoming messages, the outbox of outgoing ones, and wake-ups for the tasks that
//! wait for either. A message exists once, in the store. Not here: platforms (`channels`), and the turns that handle
//! messages (`agent`).

pub mod access;
mod admission;
mod arrivals;
pub mod side_questions;
pub mod feed;
pub mod forgetting;
pub mod freshness;
pub mod journal;
pub mod marks;
pub mod outbox;
pub mod owner_place;
pub mod notices;
pub mod overheard;
pub mod rates;
pub mod restarted;
pub mod restored;

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use rusqlite::Connection;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::people::{Groups, People};
use crate::store::{Store, StoreError, Sync};
use crate::types::message::{Address, ChannelName, Inbound, MessageId, OverheardLine, SenderId};

pub use admission::{IntakeState, record_files};
pub use arrivals::Arrival;
use freshness::{ClockLag, ReceivedPeriod, since_boot};
use overheard::Overheard;
use rates::{RateCounters, RateLimits};

/// Retention of finished rows: longer than any platform redelivers a message, and than any backlog that is read.
pub const KEPT: Duration = Duration::days(90);

/// Maximum silence of an address whose missed messages are fetched.
const CAUGHT_UP: Duration = Duration::days(30);

/// Maximum number of chats that wait for a notice about a failing store. Further ones get it when they
/// write again.
const REJECTED_MAX: usize = 64;

/// A wake-up for all watchers. One that happens between two reads is not missed.
#[derive(Clone)]
pub struct Notifier(watch::Sender<()>);

impl Default for Notifier {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Notifier {
    pub fn notify(&self) {
        self.0.send_replace(());
    }

    pub fn watch(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }

    /// Wakes the watchers, and waits until one of them has completed a round, which it reports by waking `rounds`.
    pub async fn notify_and_await_round(&self, rounds: &Self) {
        let mut rounds = rounds.watch();
        self.notify();
        rounds.changed().await.expect("we have the sender");
    }
}

/// The bus, cheap to clone.
#[derive(Clone)]
pub struct Bus {
    pub store: Store,
    pub people: People,
    /// Wakes when rows wait in the journal.
    pub inbox: Notifier,
    /// Wakes when rows wait in the outbox.
    pub outbox: Notifier,
    /// Wakes when jobs were changed, or runs of them have ended.
    pub jobs: Notifier,
    /// Wakes when folders of persons must be moved or deleted.
    pub folders: Notifier,
    /// Wakes when changed texts of an MCP server were accepted.
    pub mcp_texts: Notifier,
    /// Wakes when conversations were closed.
    pub closed: Notifier,
    /// Wakes when the access of people was changed.
    pub access: Notifier,
    /// Wakes after each successful pass of the agent loop.
    pub passes: Notifier,
    /// Wakes after each pass of the agent loop, including failed ones.
    pub rounds: Notifier,
    /// Maximum number of messages that wait at one address.
    pub waiting_max: usize,
    pub overheard: Overheard,
    pub clock_lag: ClockLag,
    pub limits: RateLimits,
    pub rates: RateCounters,
}

impl Bus {
    pub fn new(store: Store, people: People, waiting_max: usize) -> Self {
        let (inbox, outbox, jobs) = (Notifier::default(), Notifier::default(), Notifier::default());
        Self {
            store,
            people,
            inbox,
            outbox,
            jobs,
            folders: Notifier::default(),
            mcp_texts: Notifier::default(),
            closed: Notifier::default(),
            access: Notifier::default(),
            passes: Notifier::default(),
            rounds: Notifier::default(),
            waiting_max,
            overheard: Overheard::default(),
            clock_lag: ClockLag::default(),
            limits: RateLimits::default(),
            rates: RateCounters::default(),
        }
    }

    /// Sets the rate limits. The default is none.
    pub fn with_limits(self, limits: RateLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns a channel's publisher, and the queue of addresses whose messages the store rejected.
    pub fn publisher(&self, channel: &ChannelName, link: Arc<Link>) -> (Publisher, Rejected) {
        let (sender, receiver) = mpsc::channel(REJECTED_MAX);
        let publisher =
            Publisher { bus: self.clone(), channel: channel.clone(), link, rejected: sender };
        (publisher, receiver)
    }
}

/// A queue of addresses whose messages could not be stored.
pub type Rejected = mpsc::Receiver<Address>;

/// The store failed. The message was not accepted and must not be acknowledged.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep what arrived: {0}")]
pub struct PublishError(pub StoreError);

impl From<StoreError> for PublishError {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

/// The outcome of publishing a message. The message may be acknowledged to the platform in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    Accepted,
    /// It was accepted before.
    Repeated,
    /// It was not admitted. In private, its sender may have got a pairing code.
    TurnedAway,
    /// Too many messages wait at the address, or a rate limit was exceeded. Its sender was notified.
    Full,
    /// A button was pressed by a person who may not press it.
    NotEntitled,
    /// Another button of the question was pressed before.
    AlreadyDecided,
    /// The question of the button no longer exists.
    Gone,
}

/// Publishes a channel's messages on the bus.
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

    /// Returns when the bot answers in a group. The config may name the group by any of these ids; earlier
    /// ids take precedence.
    pub fn groups<'a>(&self, ids: impl IntoIterator<Item = &'a str> + Clone) -> Groups {
        let people = &self.bus.people;
        let access = people.access(&self.channel);
        let listed = access.map(|access| access.chat_rule(ids.clone()).unwrap_or(access.groups));
        match listed.unwrap_or_default() {
            Groups::Off => Groups::Off,
            by_config => people.activations.find(&self.channel, ids).unwrap_or(by_config),
        }
    }

    /// Returns true if another bot may address this one.
    pub fn allows_bot(&self, id: &SenderId) -> bool {
        let access = self.bus.people.access(&self.channel);
        access.is_some_and(|access| access.bots.iter().any(|bot| bot == id.as_str()))
    }

    /// Notes that messages arrived. Notes the difference of the clocks too, if the messages were certainly
    /// just sent.
    fn note_arrivals<'a>(&self, messages: impl IntoIterator<Item = &'a Inbound>) {
        let now = Utc::now();
        let mut is_steady = false;
        self.link.update(|state| {
            state.last_event = Some(now);
            is_steady = state.heard.is_some_and(ReceivedPeriod::is_steady);
        });
        let newest = messages.into_iter().filter(|inbound| inbound.body.press.is_none()).last();
        if let Some(message) = newest.filter(|_| is_steady) {
            self.bus.clock_lag.note(now - message.at);
        }
    }

    /// Keeps a line that does not address the bot, in memory, as context for one that does.
    pub fn remember_overheard(&self, at: &Address, id: MessageId, line: OverheardLine) {
        self.link.update(|state| state.last_event = Some(Utc::now()));
        self.bus.overheard.push(at, id, line);
    }

    /// Replaces the text of an edited line while it is kept.
    pub fn reword_overheard(&self, at: &Address, id: &MessageId, line: OverheardLine) {
        self.bus.overheard.reword(at, id, line);
    }

    /// Removes a line from the context.
    pub fn forget_overheard(&self, at: &Address, id: &MessageId) {
        self.bus.overheard.forget(at, id);
    }

    /// Returns true if the bot was addressed here before.
    pub async fn was_addressed(&self, at: &Address) -> Result<bool, PublishError> {
        let at = at.clone();
        Ok(self.bus.store.read(move |store| journal::was_addressed(store, &at)).await?)
    }

    /// Returns the newest message of each address that has recently addressed the bot: missed messages are
    /// fetched there. Newest address first.
    pub async fn last_heard(&self) -> Result<Vec<(Address, MessageId)>, PublishError> {
        let (channel, since) = (self.channel.clone(), Utc::now() - CAUGHT_UP);
        let last = move |store: &Connection| journal::last_heard(store, &channel, since);
        Ok(self.bus.store.read(last).await?)
    }

    /// Notes that bytes arrived from the platform's server.
    pub fn note_bytes(&self) {
        self.link.update(|_| {});
    }

    /// Notes that the platform has accepted our token. `status` shows `about`.
    pub fn link_up(&self, about: String) {
        self.link.update(|state| {
            state.connects += u64::from(!state.up);
            state.up = true;
            state.about = about;
        });
    }

    /// Notes that the link has ended and is being reopened. `status` shows `reason`.
    pub fn link_lost(&self, reason: &str) {
        self.link.down(reason);
    }

    /// Returns the channel's own durable mark (an offset, for example), and the time it was set.
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

/// The state of a channel's link to its platform, for `status`.
#[derive(Default)]
pub struct Link(
    // Notifies watchers when the link goes up or down.
    watch::Sender<LinkState>,
);

#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct LinkState {
    pub up: bool,
    /// Number of times that it has come up since the start.
    #[serde(skip)]
    pub connects: u64,
    pub about: String,
    pub last_byte: Option<DateTime<Utc>>,
    pub last_event: Option<DateTime<Utc>>,
    /// The period of reception since it was last down.
    #[serde(skip)]
    pub heard: Option<ReceivedPeriod>,
    /// The reason why it is down.
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

    /// Waits until the link has been up for `steady` without a break.
    pub async fn wait_until_steady(&self, steady: std::time::Duration) {
        let mut state = self.0.subscribe();
        loop {
            state.wait_for(|state| state.up).await.expect("we have the sender");
            if timeout(steady, state.wait_for(|state| !state.up)).await.is_err() {
                return;
            }
        }
    }

    fn update(&self, change: impl FnOnce(&mut LinkState)) {
        self.0.send_if_modified(|state| {
            let was_up = state.up;
            state.last_byte = Some(Utc::now());
            state.heard = Some(ReceivedPeriod::extend(state.heard, since_boot()));
            state.trouble = None;
            change(state);
            state.up != was_up
        });
    }
}
