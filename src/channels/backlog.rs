//! Reads messages that were missed while there was no link, one conversation at a time. A conversation
//! that cannot be read now is read later, while new messages arrive, and delays no other. A platform
//! supplies [`HistoryPages`].

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::sleep;

use super::ChannelError;
use crate::bus::{PublishError, Publisher};
use crate::channels::routing::{self, InboundEvent};
use crate::types::message::{Address, MessageId};

/// Pages that are read of one conversation in a round. The rest is read later, so that others get their
/// turn.
const PAGES_MAX: usize = 5;

/// Attempts to read a page before other conversations are read.
const ATTEMPTS_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Number and length of the waits that a platform may request in one round. After that, the remaining
/// conversations are left for the next round.
const WAITS_MAX: usize = 10;
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Tolerance for a difference between a platform's clock and ours, and for an event that the platform
/// reports late.
pub const LATE_MAX: chrono::Duration = chrono::Duration::minutes(5);

/// Position of a message in its conversation: its id, or its time as the platform writes it. Both are
/// numbers that grow with time, so the longer one is the later one.
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

/// The part of a conversation that is still to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    pub after: Position,
    /// The page to continue with, if a part was read already.
    pub cursor: Option<String>,
    /// Every message before this moment was received already.
    pub until: Option<DateTime<Utc>>,
}

/// The conversations that are still to be read.
#[derive(Default)]
pub struct Backlog(
    // A mutex, because the next listener takes it over from one that was dropped. Locked only briefly.
    Mutex<BTreeMap<Address, Unread>>,
);

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Address, Unread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub fn entries(&self) -> Vec<(Address, Unread)> {
        self.lock().iter().map(|(at, unread)| (at.clone(), unread.clone())).collect()
    }

    /// Adds a conversation. If it is there already, reading starts again from the earlier of both
    /// positions.
    pub fn note(&self, at: Address, unread: Unread) {
        let mut places = self.lock();
        let entry = places.entry(at).or_insert_with(|| unread.clone());
        entry.after = unread.after.min(entry.after.clone());
        // New messages may have arrived since reading began.
        entry.cursor = None;
    }

    /// Adds threads that have new messages since their channel was last received.
    fn note_threads(&self, threads: Vec<Address>, around: &Unread, max: usize) {
        let mut places = self.lock();
        for at in threads {
            if places.len() >= max && !places.contains_key(&at) {
                tracing::info!(%at, "Too many threads have new messages to read each");
                break;
            }
            places.entry(at).or_insert_with(|| Unread { cursor: None, ..around.clone() });
        }
    }

    /// Sets the rest of a conversation that is still to be read. None removes the conversation.
    fn set(&self, at: Address, rest: Option<Unread>) {
        match rest {
            Some(rest) => self.lock().insert(at, rest),
            None => self.lock().remove(&at),
        };
    }
}

/// A page of a conversation's messages.
#[derive(Default)]
pub struct HistoryPage {
    pub events: Vec<(Position, InboundEvent)>,
    pub next: Option<Unread>,
    /// Threads of the conversation that have new messages.
    pub threads: Vec<Address>,
}

/// Reason why a page could not be read.
#[derive(Debug)]
pub enum PageError {
    /// The conversation will never be readable.
    Never(String),
    /// The platform's rate limit: try again after this time.
    Limited(Duration),
    /// A problem of this conversation, or of this moment.
    Later(String),
    /// The link itself fails, so that nothing else would succeed either.
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

/// Scope of a rate limit: one conversation, so that others are read meanwhile, or all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    OfPlace,
    OfAll,
}

/// Reads a platform's history in pages.
pub trait HistoryPages: Sync {
    const RATE_LIMIT: RateLimit;
    /// Maximum number of channels, and of threads, that are read: those with the newest received
    /// messages.
    const CHANNELS_MAX: usize;
    const THREADS_MAX: usize;

    /// True if events arrive in order: an event implies that all earlier ones were received, too.
    const IS_IN_ORDER: bool;

    fn publisher(&self) -> &Publisher;

    fn backlog(&self) -> &Backlog;

    /// Returns the position that a message at `at` would have.
    fn position_at(at: DateTime<Utc>) -> Position;

    /// Reads a page of the messages after `from.after`. Pages may come in any order.
    fn page(
        &self,
        at: &Address,
        from: &Unread,
    ) -> impl Future<Output = Result<HistoryPage, PageError>> + Send;

    /// Stores the backlog durably.
    fn keep_backlog(&self) -> impl Future<Output = Result<(), ChannelError>> + Send;
}

/// Adds every conversation in which the bot was addressed to the backlog. All messages before `until`
/// were received already.
pub async fn note_missed<P: HistoryPages>(
    pages: &P,
    until: Option<DateTime<Utc>>,
) -> Result<(), PublishError> {
    let complete_until = until.map(|until| P::position_at(until - LATE_MAX)).unwrap_or_default();
    let until = until.filter(|_| P::IS_IN_ORDER);
    for (at, last) in conversations::<P>(pages.publisher().last_heard().await?) {
        let after = last.max(complete_until.clone());
        pages.backlog().note(at, Unread { after, cursor: None, until });
    }
    Ok(())
}

/// Reads each conversation of the backlog once, after a pause. Removes those that were read completely,
/// and those that will never be readable. An error ends the link.
pub async fn read_round<P: HistoryPages>(pages: &P, pause: Duration) -> Result<(), ChannelError> {
    sleep(pause).await;
    if pages.backlog().is_empty() {
        return Ok(());
    }
    let mut waits = 0;
    // Channels first, then their threads: reading a channel may reveal more of them.
    for of_threads in [false, true] {
        let places = pages.backlog().entries();
        for (at, from) in places.into_iter().filter(|(at, _)| at.thread.is_some() == of_threads) {
            let rest = match read_pages(pages, &at, &from, &mut waits).await {
                Ok(rest) => rest,
                Err(PageError::Never(reason)) => {
                    tracing::info!(%at, reason, "Cannot read missed messages here");
                    None
                }
                Err(PageError::Link(error)) => return Err(error),
                Err(error) => {
                    tracing::info!(%at, ?error, "Will read missed messages here later");
                    continue;
                }
            };
            if rest.is_some() {
                tracing::info!(%at, "There are more missed messages here than are read at once");
            }
            pages.backlog().set(at, rest);
        }
    }
    // So that the next daemon does not read this again.
    pages.keep_backlog().await
}

/// Reads a few pages of a conversation. Returns what is left to read.
async fn read_pages<P: HistoryPages>(
    pages: &P,
    at: &Address,
    from: &Unread,
    waits: &mut usize,
) -> Result<Option<Unread>, PageError> {
    let (mut found, mut next) = (Vec::new(), Some(from.clone()));
    for _ in 0..PAGES_MAX {
        let Some(unread) = next.take() else { break };
        let page = read_page(pages, at, &unread, waits).await?;
        pages.publisher().note_bytes();
        let places_max = P::CHANNELS_MAX + 2 * P::THREADS_MAX;
        pages.backlog().note_threads(page.threads, from, places_max);
        found.extend(page.events);
        next = page.next;
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    // A thread always comes with the message that it belongs to. A message without a position may be new.
    let is_new = |at: &Position| at.0.is_empty() || *at > from.after;
    for (_, event) in found.into_iter().filter(|(position, _)| is_new(position)) {
        let event = match event {
            InboundEvent::New(message) if Some(message.inbound.at) < from.until => {
                InboundEvent::Reread(message)
            }
            event => event,
        };
        // There may be a thousand messages: let the link's own task run in between.
        tokio::task::yield_now().await;
        // In sequence, because the bot's participation in a thread may depend on the message before.
        let result = routing::receive_one(pages.publisher(), event).await;
        result.map_err(|error| PageError::Link(error.into()))?;
    }
    Ok(next)
}

/// Reads one page, and waits if the platform's rate limit demands it.
async fn read_page<P: HistoryPages>(
    pages: &P,
    at: &Address,
    from: &Unread,
    waits: &mut usize,
) -> Result<HistoryPage, PageError> {
    let mut attempts = 1;
    loop {
        match pages.page(at, from).await {
            Err(PageError::Limited(wait))
                if P::RATE_LIMIT == RateLimit::OfAll && *waits < WAITS_MAX =>
            {
                *waits += 1;
                sleep(wait.min(WAIT_MAX)).await;
            }
            Err(PageError::Later(_)) if attempts < ATTEMPTS_MAX => {
                attempts += 1;
                sleep(RETRY_PAUSE).await;
            }
            page => return page,
        }
    }
}

/// Returns the conversations to read, each with its newest received message. A thread's first message is
/// in the channel around it, so that channel is read too, from the newest message of all its threads.
fn conversations<P: HistoryPages>(received: Vec<(Address, MessageId)>) -> Vec<(Address, Position)> {
    let mut newest: BTreeMap<Address, Position> = BTreeMap::new();
    let (mut channels, mut threads, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (at, id) in received {
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
