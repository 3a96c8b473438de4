//! Sessions that nobody works on just now: they stay in memory for a while, as far as there is room, and the
//! others come back from the store.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::types::origin::Origin;
use crate::types::session::Session;

/// Memory that they take together: hundreds of usual conversations, and little on a small board.
const BYTES_MAX: usize = 16 << 20;

const KEPT_FOR: Duration = Duration::from_secs(600);

/// Since when a session is idle; the number tells those of the same instant apart.
type Since = (Instant, u64);

#[derive(Default)]
pub(super) struct Idle {
    sessions: HashMap<Origin, Kept>,
    /// The one that has been idle for longest comes first.
    order: BTreeMap<Since, Origin>,
    bytes: usize,
    count: u64,
}

struct Kept {
    session: Session,
    since: Since,
    bytes: usize,
}

impl Idle {
    pub(super) fn keep(&mut self, session: Session) {
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
        self.sessions.insert(origin, Kept { session, since, bytes });
    }

    pub(super) fn take(&mut self, origin: &Origin) -> Option<Session> {
        let Kept { session, since, bytes } = self.sessions.remove(origin)?;
        self.order.remove(&since);
        self.bytes -= bytes;
        Some(session)
    }

    /// Waits until a session has been idle for long enough, and forgets it.
    pub(super) async fn forget(&mut self) {
        let Some(((since, _), _)) = self.order.first_key_value() else { return pending().await };
        sleep_until(*since + KEPT_FOR).await;
        self.forget_longest();
    }

    fn forget_longest(&mut self) {
        if let Some((_, origin)) = self.order.first_key_value() {
            let origin = origin.clone();
            self.take(&origin);
        }
    }
}
