//! Keeps idle sessions in memory for a while, within a limit. Other sessions are read from the store again.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::process;
use crate::store::Store;
use crate::types::origin::Origin;
use crate::types::session::Session;

/// Maximum memory of all idle sessions, in bytes: hundreds of usual conversations, and little on a small
/// board.
const BYTES_MAX: usize = 16 << 20;

/// Time after which an idle session is dropped.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// Number of turns after which the free part of the heap may be large. Fewer do not justify a wake-up.
const PEAK: u32 = 32;

/// Time after the last end of a turn until free memory is returned, if there was a peak. Connections to the
/// model are closed by then.
const QUIET: Duration = Duration::from_secs(35);

/// The instant at which a session became idle. The number distinguishes sessions of the same instant.
type IdleSince = (Instant, u64);

/// The reason why [`IdleSessions::forget`] has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleEvent {
    SessionDropped,
    /// Free memory should be returned to the kernel.
    AfterPeak,
}

impl IdleEvent {
    /// Closes connections that only a busy daemon needs. After a peak, the allocator returns free memory to the kernel.
    pub(super) fn give_back(self, store: &Store) {
        store.close_idle();
        if self == Self::AfterPeak {
            process::return_free_memory();
        }
    }
}

#[derive(Default)]
pub(super) struct IdleSessions {
    sessions: HashMap<Origin, IdleSession>,
    /// The session that has been idle for longest comes first.
    order: BTreeMap<IdleSince, Origin>,
    bytes: usize,
    count: u64,
    /// Turns that ended since memory was returned to the kernel.
    turns: u32,
    last_end: Option<Instant>,
}

struct IdleSession {
    session: Session,
    since: IdleSince,
    bytes: usize,
}

impl IdleSessions {
    pub(super) fn keep(&mut self, session: Session) {
        self.turns += 1;
        self.last_end = Some(Instant::now());
        self.take(&session.origin);
        let bytes = session.bytes();
        if bytes > BYTES_MAX {
            return;
        }
        while self.bytes + bytes > BYTES_MAX {
            self.forget_longest();
        }
        self.count += 1;
        let (origin, since) = (session.origin.clone(), (Instant::now(), self.count));
        self.bytes += bytes;
        self.order.insert(since, origin.clone());
        self.sessions.insert(origin, IdleSession { session, since, bytes });
    }

    pub(super) fn take(&mut self, origin: &Origin) -> Option<Session> {
        let IdleSession { session, since, bytes } = self.sessions.remove(origin)?;
        self.order.remove(&since);
        self.bytes -= bytes;
        Some(session)
    }

    /// Waits until a session has been idle for long enough, and drops it, or until turns have been quiet after a peak.
    pub(super) async fn forget(&mut self) -> IdleEvent {
        let drop_at = self.order.first_key_value().map(|((since, _), _)| *since + KEPT_FOR);
        let trim_at = self.last_end.filter(|_| self.turns >= PEAK).map(|at| at + QUIET);
        match (drop_at, trim_at) {
            (_, Some(at)) if drop_at.is_none_or(|drop_at| at <= drop_at) => {
                sleep_until(at).await;
                self.turns = 0;
                IdleEvent::AfterPeak
            }
            (Some(at), _) => {
                sleep_until(at).await;
                self.forget_longest();
                IdleEvent::SessionDropped
            }
            (None, _) => pending().await,
        }
    }

    /// Drops all sessions, because the store has changed the content of some.
    pub(super) fn clear(&mut self) {
        while !self.order.is_empty() {
            self.forget_longest();
        }
    }

    fn forget_longest(&mut self) {
        if let Some((_, origin)) = self.order.first_key_value() {
            let origin = origin.clone();
            self.take(&origin);
        }
    }
}
