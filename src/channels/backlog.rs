//! What was said while there was no link, read back place by place. A place that cannot be read just now is
//! read later, beside what is said; no other place waits for it. A platform supplies [`Pages`].

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::sleep;

use super::ChannelError;
use crate::bus::{PublishError, Publisher};
use crate::channels::hear::{self, Event};
use crate::types::message::{Address, MessageId};

/// Pages that are read of one place at a time; the rest is read later, so that others get their turn.
const PAGES_MAX: usize = 5;

/// Attempts at a page that fails, before other places are read.
const TRIES: u32 = 3;
const TRY_PAUSE: Duration = Duration::from_millis(500);

/// How often, and for how long, a platform may have one round wait before places are left for the next.
const WAITS_MAX: usize = 10;
const WAIT_MAX: Duration = Duration::from_secs(120);

/// How far a platform's clock and ours may be apart, and how late it may tell of something.
pub const LATE_MAX: chrono::Duration = chrono::Duration::minutes(5);

/// A message's id, or its time as the platform writes it, in the order in which messages were said:
/// numbers of which the longer is the later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position(pub String);

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What is still to be read of a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    pub after: Position,
    /// The page to go on with, if a part was read already.
    pub cursor: Option<String>,
    /// Until when everything that was said was heard already.
    pub until: Option<DateTime<Utc>>,
}

/// The places that are still to be read.
#[derive(Default)]
pub struct Backlog(
    // A mutex, since a listener that was dropped leaves it to the next one; held for a look.
    Mutex<BTreeMap<Address, Unread>>,
);

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Address, Unread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub fn places(&self) -> Vec<(Address, Unread)> {
        self.lock().iter().map(|(at, unread)| (at.clone(), unread.clone())).collect()
    }

    /// Adds a place. One that is there already is read from the earlier of both on, anew.
    pub fn note(&self, at: Address, unread: Unread) {
        let mut places = self.lock();
        let noted = places.entry(at).or_insert_with(|| unread.clone());
        noted.after = unread.after.min(noted.after.clone());
        // More may be there by now than where it was begun.
        noted.cursor = None;
    }

    /// Adds threads that have grown since the place around them was heard.
    fn note_threads(&self, threads: Vec<Address>, around: &Unread, max: usize) {
        let mut places = self.lock();
        for at in threads {
            if places.len() >= max && !places.contains_key(&at) {
                tracing::info!(%at, "Too many threads have grown to read each");
                break;
            }
            places.entry(at).or_insert_with(|| Unread { cursor: None, ..around.clone() });
        }
    }

    /// Notes what is left to read of a place; nothing, if that is all.
    fn set(&self, at: Address, rest: Option<Unread>) {
        match rest {
            Some(rest) => self.lock().insert(at, rest),
            None => self.lock().remove(&at),
        };
    }
}

/// A page of what was said at a place.
#[derive(Default)]
pub struct Page {
    pub events: Vec<(Position, Event)>,
    pub next: Option<Unread>,
    /// Threads of the place that have grown since.
    pub threads: Vec<Address>,
}

/// Why a page could not be read.
#[derive(Debug)]
pub enum PageError {
    /// The place will not be readable.
    Never(String),
    /// The platform wants to be asked again after so long.
    Limited(Duration),
    /// It is this place, or this moment.
    Later(String),
    /// Nothing else would go better.
    Link(ChannelError),
}

impl From<ChannelError> for PageError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Refused(reason) => Self::Never(reason),
            ChannelError::Closed(_) => Self::Link(error),
            ChannelError::Unavailable { after: Some(after), .. } => Self::Limited(after),
            ChannelError::Unavailable { .. }
            | ChannelError::Ambiguous(_)
            | ChannelError::DraftGone => Self::Later(error.to_string()),
        }
    }
}

/// Whether a rate limit is of one place, so that others are read meanwhile, or of all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    OfPlace,
    OfAll,
}

/// What a platform supplies: pages of what was said.
pub trait Pages: Sync {
    const RATE_LIMIT: RateLimit;
    /// Channels that are read, and threads: the newest that were heard.
    const CHANNELS_MAX: usize;
    const THREADS_MAX: usize;

    /// Whether all that was said before an event that was heard was heard, too.
    const IS_IN_ORDER: bool;

    fn publisher(&self) -> &Publisher;

    fn backlog(&self) -> &Backlog;

    /// The position of what is said at a moment.
    fn position_at(at: DateTime<Utc>) -> Position;

    /// A page of what was said at a place after `from.after`. Pages may come in any order.
    fn page(
        &self,
        at: &Address,
        from: &Unread,
    ) -> impl Future<Output = Result<Page, PageError>> + Send;

    /// Notes durably what is still to be read.
    fn keep_backlog(&self) -> impl Future<Output = Result<(), ChannelError>> + Send;
}

/// Notes that everywhere the bot was spoken to is to be read what was said since; until `until`,
/// everything was heard.
pub async fn note_missed<P: Pages>(
    pages: &P,
    until: Option<DateTime<Utc>>,
) -> Result<(), PublishError> {
    let all_heard = until.map(|until| P::position_at(until - LATE_MAX)).unwrap_or_default();
    let until = until.filter(|_| P::IS_IN_ORDER);
    for (at, last) in places::<P>(pages.publisher().last_heard().await?) {
        let after = last.max(all_heard.clone());
        pages.backlog().note(at, Unread { after, cursor: None, until });
    }
    Ok(())
}

/// Reads each unread place once, after a pause; those that could be read, or never will be, are done
/// with. An error ends the link.
pub async fn read_round<P: Pages>(pages: &P, pause: Duration) -> Result<(), ChannelError> {
    sleep(pause).await;
    if pages.backlog().is_empty() {
        return Ok(());
    }
    let mut waits = 0;
    // Channels first, and then their threads, of which more may be known by then.
    for of_threads in [false, true] {
        let places = pages.backlog().places();
        for (at, from) in places.into_iter().filter(|(at, _)| at.thread.is_some() == of_threads) {
            let rest = match read(pages, &at, &from, &mut waits).await {
                Ok(rest) => rest,
                Err(PageError::Never(reason)) => {
                    tracing::info!(%at, reason, "Cannot read back what was said here");
                    None
                }
                Err(PageError::Link(error)) => return Err(error),
                Err(error) => {
                    tracing::info!(%at, ?error, "Will read back later what was said here");
                    continue;
                }
            };
            if rest.is_some() {
                tracing::info!(%at, "More was said here than is read back at once");
            }
            pages.backlog().set(at, rest);
        }
    }
    // What has been read need not be read again by a daemon after this one.
    pages.keep_backlog().await
}

/// Reads a few pages of a place; gives what is left.
async fn read<P: Pages>(
    pages: &P,
    at: &Address,
    from: &Unread,
    waits: &mut usize,
) -> Result<Option<Unread>, PageError> {
    let (mut found, mut next) = (Vec::new(), Some(from.clone()));
    for _ in 0..PAGES_MAX {
        let Some(here) = next.take() else { break };
        let page = read_page(pages, at, &here, waits).await?;
        pages.publisher().heard_byte();
        let places_max = P::CHANNELS_MAX + 2 * P::THREADS_MAX;
        pages.backlog().note_threads(page.threads, from, places_max);
        found.extend(page.events);
        next = page.next;
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    // A thread is always told with what it hangs on, and what has no position cannot be told from new.
    let is_new = |at: &Position| at.0.is_empty() || *at > from.after;
    for (_, event) in found.into_iter().filter(|(position, _)| is_new(position)) {
        let event = match event {
            Event::New(message) if Some(message.inbound.at) < from.until => Event::Reread(message),
            event => event,
        };
        // There may be a thousand: the link beside must not fall silent meanwhile.
        tokio::task::yield_now().await;
        // One after the other: whether the bot takes part in a thread may depend on the one before.
        let received = hear::receive_one(pages.publisher(), event).await;
        received.map_err(|error| PageError::Link(error.into()))?;
    }
    Ok(next)
}

/// Reads one page, as slowly as the platform wants.
async fn read_page<P: Pages>(
    pages: &P,
    at: &Address,
    from: &Unread,
    waits: &mut usize,
) -> Result<Page, PageError> {
    let mut tries = 1;
    loop {
        match pages.page(at, from).await {
            Err(PageError::Limited(wait))
                if P::RATE_LIMIT == RateLimit::OfAll && *waits < WAITS_MAX =>
            {
                *waits += 1;
                sleep(wait.min(WAIT_MAX)).await;
            }
            Err(PageError::Later(_)) if tries < TRIES => {
                tries += 1;
                sleep(TRY_PAUSE).await;
            }
            page => return page,
        }
    }
}

/// The places to read, each with the newest message that was heard in it. What begins a thread stands in
/// the channel around it, so that is read too, from the newest of them all on.
fn places<P: Pages>(heard: Vec<(Address, MessageId)>) -> Vec<(Address, Position)> {
    let mut newest: BTreeMap<Address, Position> = BTreeMap::new();
    let (mut channels, mut threads, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (at, id) in heard {
        let (channel, position) =
            (Address { thread: None, ..at.clone() }, Position(id.as_str().to_owned()));
        if seen.insert(channel.clone()) && channels.len() < P::CHANNELS_MAX {
            channels.push(channel.clone());
        }
        let last = newest.entry(channel).or_default();
        *last = position.clone().max(last.clone());
        if at.thread.is_some() && threads.len() < P::THREADS_MAX {
            threads.push((at, position));
        }
    }
    let channels = channels.into_iter().filter_map(|at| newest.remove(&at).map(|last| (at, last)));
    channels.chain(threads).collect()
}
