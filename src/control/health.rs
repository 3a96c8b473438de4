//! The health of the daemon: its loop makes passes, and its store writes and is whole. Channels are no part of it, because a
//! platform may be away.

use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::bus::{Bus, marks};
use crate::store::{StoreTrouble, Sync};

/// Time for a pass of the loop, and for a commit: far more than either takes under load.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// The health of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// True if the agent loop makes passes.
    pub agent_loop: bool,
    /// True if the store writes, and is not known to be damaged.
    pub store: bool,
    /// True if a part of the database could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

impl Default for Health {
    /// The health of a daemon of an older version, which answers without reporting it.
    fn default() -> Self {
        Self { agent_loop: true, store: true, damaged: false }
    }
}

impl Health {
    /// Examines both parts, in a few seconds at most.
    pub async fn examine(bus: &Bus) -> Self {
        let (agent_loop, writes) = tokio::join!(loop_makes_pass(bus), store_writes(bus));
        let damaged = bus.store.trouble() == Some(StoreTrouble::Damaged);
        Self { agent_loop, store: writes && !damaged, damaged }
    }

    pub fn is_well(self) -> bool {
        self.agent_loop && self.store
    }
}

/// Wakes the loop. Returns true if it makes a pass without an error in time.
async fn loop_makes_pass(bus: &Bus) -> bool {
    timeout(ANSWER_TIME_MAX, bus.inbox.notify_and_await_round(&bus.passes)).await.is_ok()
}

/// Returns true if the store commits a change in time. Nobody reads it.
async fn store_writes(bus: &Bus) -> bool {
    let note = |store: &Connection| marks::note_health(store);
    matches!(
        timeout(ANSWER_TIME_MAX, bus.store.write("health", Sync::Later, note)).await,
        Ok(Ok(()))
    )
}
