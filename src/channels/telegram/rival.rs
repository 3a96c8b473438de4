//! Another program that polls with the same token. Telegram ends the poll of either whenever the other one begins its own,
//! so both would go on for ever and share the messages. The one that began later makes way. Pure.

use std::time::{Duration, Instant};

/// Polling for so long without a conflict makes this one the first: more than a restart of the other takes.
const FIRST_AFTER: Duration = Duration::from_secs(300);

/// Fewer conflicts may be with our own former poll, which the server has not given up yet, or with somebody's short test.
const CONFLICTS_MIN: u32 = 5;

/// The explanation of the later one.
pub const MAKES_WAY: &str = "another program polls Telegram with the same token, and did so before this one: this one \
     makes way, and looks again every five minutes. Stop one of them";

/// The polls and conflicts of one token, in this process.
#[derive(Debug, Default)]
pub struct Rivalry {
    /// The begin of the polls since the last conflict.
    since: Option<Instant>,
    conflicts: u32,
    is_first: bool,
}

impl Rivalry {
    /// Notes a poll that was answered.
    pub fn polled(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= FIRST_AFTER {
            self.is_first = true;
            self.conflicts = 0;
        }
    }

    /// Notes a conflict. Returns true if this program makes way.
    pub fn conflict(&mut self) -> bool {
        self.since = None;
        self.conflicts = self.conflicts.saturating_add(1);
        !self.is_first && self.conflicts >= CONFLICTS_MIN
    }
}
