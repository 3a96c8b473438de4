//! Detects another program that polls with the same token. Telegram ends the poll of one whenever the other begins its
//! own, so both would go on for ever and share the messages. The one that began later makes way; of two that have begun
//! within five minutes, either. Pure.

use std::time::{Duration, Instant};

/// Time of polling without a conflict after which this program is the first: longer than a restart of the other.
const FIRST_AFTER: Duration = Duration::from_secs(300);

/// Conflicts before this program makes way. Fewer may be with our own former poll, which the server has not given up
/// yet, or with somebody's short test.
const CONFLICTS_MIN: u32 = 5;

/// The reason that the later program reports.
pub const CONFLICT_REASON: &str = "another program polls Telegram with the same token, and this one has not polled alone for \
     five minutes: this one makes way, and looks again every five minutes. Stop one of them";

/// The polls and conflicts of one token, in this process.
#[derive(Debug, Default)]
pub struct PollConflicts {
    /// Time of the first poll since the last conflict.
    since: Option<Instant>,
    conflicts: u32,
    is_first: bool,
}

impl PollConflicts {
    /// Notes a poll that was answered.
    pub fn note_poll(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= FIRST_AFTER {
            self.is_first = true;
            self.conflicts = 0;
        }
    }

    /// Notes a conflict. Returns true if this program makes way.
    pub fn note_conflict(&mut self) -> bool {
        self.since = None;
        self.conflicts = self.conflicts.saturating_add(1);
        !self.is_first && self.conflicts >= CONFLICTS_MIN
    }
}
