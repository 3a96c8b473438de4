//! The in-process bus: the journal on the way in, the outbox on the way out, and a way to wake who
//! waits for either. A message is on it once, in the store.

pub mod journal;
pub mod outbox;

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::{mpsc, watch};

use crate::message::{Address, Cause, ChannelName, DedupKey, Inbound, Place, Sender};
use crate::people::{self, Greeting, Groups, People, Role};
use crate::replies;
use crate::store::{Store, StoreError, Sync};

use journal::Fate;

/// Commands that never wait behind turns, by their first word.
pub const CONTROLS: &[&str] = &["/start", "/help", "/status", "/stop", "/new", "/whoami", "/pair"];

/// How long the bus remembers what is done: longer than any platform delivers again, or any
/// catch-up reaches back.
const KEPT: Duration = Duration::days(90);

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
    /// Messages that may wait at one address.
    pub waiting_max: usize,
}

impl Bus {
    pub fn new(store: Store, people: People, waiting_max: usize) -> Self {
        Self { store, people, inbox: Wake::default(), outbox: Wake::default(), waiting_max }
    }

    /// Forgets what was done long ago; conversations stay.
    pub async fn prune(&self) -> Result<(), StoreError> {
        let before = Utc::now() - KEPT;
        let prune = move |store: &Connection| {
            journal::prune(store, before)?;
            outbox::prune(store, before)
        };
        self.store.write("prune", Sync::Later, prune).await
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

    /// When the bot answers in this channel's groups.
    pub fn groups(&self) -> Groups {
        self.bus.people.access(&self.channel).map(|access| access.groups).unwrap_or_default()
    }

    /// Admits a message and commits it to the journal. When this returns `Ok`, the platform may be
    /// told that the message has arrived.
    pub async fn publish(&self, inbound: Inbound) -> Result<Published, PublishError> {
        self.link.heard(|state| state.last_event = Some(Utc::now()));
        let from = inbound.from.clone();
        let (people, waiting_max) = (self.bus.people.clone(), self.bus.waiting_max);
        let admitted = self
            .bus
            .store
            .write("publish", Sync::Now, move |store| admit(store, &people, waiting_max, &inbound))
            .await;
        match admitted {
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

    /// Keeps what could not be read, for a person to look at.
    pub async fn keep_raw(&self, key: DedupKey, raw: String) -> Result<(), PublishError> {
        tracing::warn!(channel = %self.channel, %key, "Kept a message that could not be read");
        let channel = self.channel.clone();
        let raw = raw.chars().take(RAW_CHARS_MAX).collect::<String>();
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
            state.up = true;
            state.about = about;
        });
    }

    /// The channel's own durable mark (an offset, say), and when it was set.
    pub async fn mark(&self) -> Result<Option<(String, DateTime<Utc>)>, PublishError> {
        let channel = self.channel.clone();
        let mark = self.bus.store.read(move |store| {
            let mut mark = store.prepare_cached("SELECT mark, at FROM marks WHERE channel = ?")?;
            mark.query_row([channel.as_str()], |row| {
                let at = DateTime::from_timestamp_millis(row.get(1)?).unwrap_or_default();
                Ok((row.get(0)?, at))
            })
            .optional()
        });
        Ok(mark.await?)
    }

    pub async fn set_mark(&self, mark: String) -> Result<(), PublishError> {
        let channel = self.channel.clone();
        let set = move |store: &Connection| {
            store
                .prepare_cached(
                    "INSERT OR REPLACE INTO marks (channel, mark, at) VALUES (?, ?, ?)",
                )?
                .execute(params![channel.as_str(), mark, Utc::now().timestamp_millis()])
        };
        self.bus.store.write("mark", Sync::Later, set).await?;
        Ok(())
    }
}

/// How a channel's link to its platform is, for `status`.
#[derive(Default)]
pub struct Link(
    // A mutex because adapter and onlookers are different tasks; it guards copies of a few words.
    Mutex<LinkState>,
);

#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct LinkState {
    pub up: bool,
    pub about: String,
    pub last_byte: Option<DateTime<Utc>>,
    pub last_event: Option<DateTime<Utc>>,
    /// Why it is down.
    pub trouble: Option<String>,
}

impl Link {
    pub fn state(&self) -> LinkState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn down(&self, trouble: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.up = false;
        state.trouble = Some(trouble.to_owned());
    }

    fn heard(&self, change: impl FnOnce(&mut LinkState)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.last_byte = Some(Utc::now());
        state.trouble = None;
        change(&mut state);
    }
}

fn admit(
    store: &Connection,
    people: &People,
    waiting_max: usize,
    inbound: &Inbound,
) -> rusqlite::Result<Published> {
    if journal::has(store, &inbound.key)? {
        return Ok(Published::Repeated);
    }
    let Cause::Person(sender) = &inbound.cause;
    let from = &inbound.from;
    let Some(role) = people.role_of(store, &from.channel, &sender.id)? else {
        turn_away(store, people, inbound, sender)?;
        return Ok(Published::TurnedAway);
    };
    // At a terminal nobody may sit any more when there is something to tell.
    let stays = sender.id.as_str() != people::LOCAL || people::owner_place(store)?.is_none();
    if role == Role::Owner && inbound.place == Place::Private && stays {
        people::set_owner_place(store, from)?;
    }
    let control = is_control(&inbound.body.text);
    if !control && journal::count_waiting(store, from)? >= waiting_max {
        journal::add(store, inbound, control, Some(Fate::Refused))?;
        outbox::put(store, from, inbound.id.as_ref(), &replies::too_many_waiting(waiting_max))?;
        return Ok(Published::TurnedAway);
    }
    journal::add(store, inbound, control, None)?;
    Ok(Published::Accepted)
}

fn is_control(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    CONTROLS.contains(&word.as_str())
}

/// Answers a stranger in private with a code or a refusal; says nothing in groups.
fn turn_away(
    store: &Connection,
    people: &People,
    inbound: &Inbound,
    sender: &Sender,
) -> rusqlite::Result<()> {
    let from = &inbound.from;
    let pairs = people.access(&from.channel).is_some_and(|access| access.pairing);
    if inbound.place == Place::Group || !pairs {
        tracing::info!(channel = %from.channel, sender = %sender.id, "Turned a stranger away");
        return Ok(());
    }
    let words = match people::greet(store, from, sender, Utc::now())? {
        Greeting::Nothing => return Ok(()),
        Greeting::Crowded => replies::CROWDED.to_owned(),
        Greeting::Code { code, new } => {
            let have_owner = people.have_owner(store)?;
            if let (true, true, Some(owner)) = (new, have_owner, people::owner_place(store)?) {
                let ask = replies::stranger_asks(sender, &from.channel, &code);
                outbox::put(store, &owner, None, &ask)?;
            }
            replies::pairing_code(&code, have_owner)
        }
    };
    outbox::put(store, from, None, &words)?;
    Ok(())
}
