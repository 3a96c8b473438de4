//! Messages, commands and asks whose work fails in the store. Each is tried again after a pause, which
//! delays nothing else, and after some failures it is closed alone.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::running::Running;
use crate::bus::journal::RowId;
use crate::conversation::asks::AskId;
use crate::store::StoreError;
use crate::turn::STORE_PAUSE;
use crate::turn::error::{CommitError, TurnError};
use crate::types::origin::Origin;

/// Maximum number of failures of a row that are caused by the row itself. More attempts would fail as well.
const FAILURES_MAX: u32 = 3;

/// An item that waits in the store and whose work can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Item {
    /// A command, or the first message of a turn.
    Row(RowId),
    Ask(AskId),
}

/// The failing items.
#[derive(Default)]
pub(super) struct FailingItems {
    failures: HashMap<Item, Failure>,
    /// Addresses where a turn could not begin with several messages, and the last of these messages. Each of
    /// them is tried in a turn of its own, so that only the failing one is closed.
    apart: HashMap<Origin, RowId>,
}

struct Failure {
    at: Origin,
    times: u32,
    /// Time of the next attempt.
    next: Instant,
}

impl FailingItems {
    /// Counts a failure, and makes the item pause. Returns true at the last allowed failure.
    pub(super) fn count(&mut self, item: Item, at: &Origin, error: &StoreError) -> bool {
        let next = Instant::now() + STORE_PAUSE;
        let failure =
            self.failures.entry(item).or_insert_with(|| Failure { at: at.clone(), times: 0, next });
        failure.next = next;
        // A full or failing disk is not the item's fault.
        failure.times += u32::from(matches!(error, StoreError::Change(_)));
        failure.times >= FAILURES_MAX
    }

    pub(super) fn forget(&mut self, item: Item) {
        self.failures.remove(&item);
    }

    /// Returns the remaining pause of the item. None if it may be tried now.
    pub(super) fn remaining_pause(&self, item: Item) -> Option<Duration> {
        let now = Instant::now();
        let failure = self.failures.get(&item).filter(|failure| failure.next > now)?;
        Some(failure.next - now)
    }

    /// Makes each message that waits at an address begin a turn of its own, up to the last one of `rows`.
    /// Returns false if that was so before, or if there is only one.
    pub(super) fn separate_messages(&mut self, at: &Origin, rows: &[RowId]) -> bool {
        let [first, .., last] = rows else { return false };
        if self.must_begin_alone(at, *first) {
            return false;
        }
        self.apart.insert(at.clone(), *last);
        true
    }

    /// Notes that a turn failed in the store. It resumes without the messages that it got since it began,
    /// one of which may be the reason: each of them is tried in a turn of its own.
    pub(super) fn note_cut_off(&mut self, at: &Origin, turn: &Running, error: &TurnError) {
        let is_change =
            matches!(error, TurnError::Commit(CommitError::Store(StoreError::Change(_))));
        let begun_with = turn.rows.last().copied().unwrap_or(RowId(0));
        if is_change && turn.given > begun_with {
            self.apart.insert(at.clone(), turn.given);
        }
    }

    /// Returns true if a turn with this message must begin with it alone.
    pub(super) fn must_begin_alone(&self, at: &Origin, first: RowId) -> bool {
        self.apart.get(at).is_some_and(|last| first <= *last)
    }

    /// Notes that a turn begins at an address, with this message first.
    pub(super) fn begins(&mut self, at: &Origin, first: RowId) {
        if !self.must_begin_alone(at, first) {
            self.apart.remove(at);
        }
    }

    /// Returns the longest remaining pause of the origin's items. Until then nothing begins there.
    pub(super) fn remaining_pause_at(&self, at: &Origin) -> Option<Duration> {
        let now = Instant::now();
        let resting =
            self.failures.values().filter(|failure| failure.at == *at && failure.next > now);
        resting.map(|failure| failure.next - now).max()
    }

    /// Returns the time until the next attempt of any item.
    pub(super) fn next(&self) -> Option<Duration> {
        let now = Instant::now();
        self.failures
            .values()
            .map(|failure| failure.next)
            .filter(|next| *next > now)
            .min()
            .map(|at| at - now)
    }
}
