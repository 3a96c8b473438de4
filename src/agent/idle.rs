//! Sessions that nobody works on just now: a few stay in memory for a while, the others come back
//! from the store.

use std::collections::HashMap;
use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::message::Address;
use crate::session::Session;

const SESSIONS_MAX: usize = 32;
const KEPT_FOR: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Idle(HashMap<Address, (Session, Instant)>);

impl Idle {
    pub(super) fn keep(&mut self, session: Session) {
        if self.0.len() >= SESSIONS_MAX
            && let Some((longest, _)) = self.longest()
        {
            self.0.remove(&longest);
        }
        self.0.insert(session.address.clone(), (session, Instant::now()));
    }

    pub(super) fn take(&mut self, address: &Address) -> Option<Session> {
        self.0.remove(address).map(|(session, _)| session)
    }

    /// Waits until a session has been idle for long enough, and forgets it.
    pub(super) async fn forget(&mut self) {
        let Some((longest, since)) = self.longest() else { return pending().await };
        sleep_until(since + KEPT_FOR).await;
        self.0.remove(&longest);
    }

    /// The session that has been idle for longest, and since when.
    fn longest(&self) -> Option<(Address, Instant)> {
        let longest = self.0.iter().min_by_key(|(_, (_, since))| *since);
        longest.map(|(address, (_, since))| (address.clone(), *since))
    }
}
