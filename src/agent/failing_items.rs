//! Messages, commands and asks whose work fails in the store. Each is tried again after a pause, which
//! delays nothing else, and after some failures it is closed alone.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::agent::{Agent, Running, STORE_PAUSE};
use crate::bus::journal::{RowId, UnreadableRow, WaitingMessage, unreadable_at};
use crate::conversation::asks::{Ask, AskId};
use crate::conversation::transcript::UnreadableTurn;
use crate::replies;
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::error::{CommitError, TurnError};
use crate::types::origin::Origin;

/// Maximum number of failures of a row for a reason of its own. By then it will not work by itself.
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
pub(super) struct Failing {
    failures: HashMap<Item, Failure>,
    /// Addresses where a turn could not begin with several messages, and the last of these. Each of them
    /// is tried in a turn of its own, so that only the failing one is closed.
    apart: HashMap<Origin, RowId>,
}

struct Failure {
    at: Origin,
    times: u32,
    /// Time of the next attempt.
    next: Instant,
}

impl Failing {
    /// Counts a failure, and lets the item pause. Returns true at the last allowed failure.
    fn count(&mut self, item: Item, at: &Origin, error: &StoreError) -> bool {
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
    pub(super) fn rests(&self, item: Item) -> Option<Duration> {
        let now = Instant::now();
        let failure = self.failures.get(&item).filter(|failure| failure.next > now)?;
        Some(failure.next - now)
    }

    /// Lets the messages that wait at an address be tried each in a turn of its own, up to the last one
    /// of `rows`. Returns false if that was so before, or there is only one.
    fn take_apart(&mut self, at: &Origin, rows: &[RowId]) -> bool {
        let [first, .., last] = rows else { return false };
        if self.is_apart(at, *first) {
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
    pub(super) fn is_apart(&self, at: &Origin, first: RowId) -> bool {
        self.apart.get(at).is_some_and(|last| first <= *last)
    }

    /// Notes that a turn begins at an address, with this message first.
    pub(super) fn begins(&mut self, at: &Origin, first: RowId) {
        if !self.is_apart(at, first) {
            self.apart.remove(at);
        }
    }

    /// Returns how long an item of the origin still pauses, before which nothing is begun there.
    pub(super) fn rests_at(&self, at: &Origin) -> Option<Duration> {
        let now = Instant::now();
        let there =
            self.failures.values().filter(|failure| failure.at == *at && failure.next > now);
        there.map(|failure| failure.next - now).max()
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

impl Agent {
    /// Carries a command out. A failing one pauses, and is closed after some failures.
    pub(super) async fn try_to_handle(&mut self, control: WaitingMessage) {
        let (row, at) = (control.id, control.origin.clone());
        match self.handle(control).await {
            Ok(()) => self.failing.forget(Item::Row(row)),
            Err(error) => {
                tracing::error!(row = row.0, %error, "A command failed");
                self.has_failed(vec![row], &at, &error, replies::COMMAND_FAILED).await;
            }
        }
    }

    /// Handles rows with which a turn could not begin.
    pub(super) async fn not_begun(&mut self, rows: Vec<RowId>, at: &Origin, error: &TurnError) {
        if let TurnError::Commit(CommitError::Store(error)) = error {
            self.has_failed(rows, at, error, replies::MESSAGE_FAILED).await;
        }
    }

    pub(super) async fn has_failed(
        &mut self,
        rows: Vec<RowId>,
        at: &Origin,
        error: &StoreError,
        words: &'static str,
    ) {
        let Some(first) = rows.first().copied() else { return };
        let is_change = matches!(error, StoreError::Change(_));
        if is_change && self.failing.take_apart(at, &rows) {
            tracing::warn!(
                rows = rows.len(),
                "A turn could not start, will try its messages one by one"
            );
            return;
        }
        if !self.failing.count(Item::Row(first), at, error) {
            return;
        }
        match commits::failed(&self.services.bus.store, rows, error.to_string(), words).await {
            Ok(()) => self.failing.forget(Item::Row(first)),
            Err(error) => tracing::error!(row = first.0, %error, "Cannot close a failing message"),
        }
        self.services.bus.outbox.up();
    }

    /// Handles a panicked turn that may not have begun with these rows. Several rows are tried again one
    /// by one; a single one is closed.
    pub(super) async fn has_panicked(&mut self, rows: Vec<RowId>, at: &Origin, begun: bool) {
        if !begun && self.failing.take_apart(at, &rows) {
            return;
        }
        let broke = commits::broke(&self.services.bus.store, rows, at.clone());
        if let Err(error) = broke.await {
            tracing::error!(%error, "Cannot report that a turn failed");
        }
    }

    /// Handles an ask that could not be settled: it pauses, and after some failures it is closed with its
    /// turn.
    pub(super) async fn ask_failed(&mut self, ask: Ask, error: &StoreError) {
        let item = Item::Ask(ask.id);
        tracing::error!(ask = ask.id.0, %error, "Cannot settle a question of a suspended turn, will try again");
        if !self.failing.count(item, &Origin::from(&ask.at), error) {
            return;
        }
        let id = ask.id.0;
        match commits::failed_ask(&self.services.bus.store, ask, error.to_string()).await {
            Ok(at) => {
                self.failing.forget(item);
                at.into_iter().for_each(|at| drop(self.idle.take(&at)));
            }
            Err(error) => tracing::error!(ask = id, %error, "Cannot close a failing question"),
        }
    }

    /// Closes unreadable rows. Returns true if there were any.
    async fn close_unreadable(&self, rows: Vec<UnreadableRow>) -> Result<bool, StoreError> {
        if rows.is_empty() {
            return Ok(false);
        }
        commits::unreadable_rows(&self.services.bus.store, rows).await?;
        self.services.bus.outbox.up();
        Ok(true)
    }

    /// Closes unreadable commands and ends unreadable turns. Returns false if some of them are left, to
    /// be tried again.
    pub(super) async fn close_all_unreadable(
        &mut self,
        commands: Vec<UnreadableRow>,
        turns: Vec<UnreadableTurn>,
    ) -> bool {
        let mut failed = self.close_unreadable(commands).await.err();
        for turn in turns {
            match commits::unreadable_turn(&self.services.bus.store, turn).await {
                Ok(()) | Err(CommitError::Ended) => self.services.bus.outbox.up(),
                Err(CommitError::Store(error)) => {
                    // Only a complete read finds it again.
                    self.is_up_to_date = false;
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = &failed {
            tracing::error!(%error, "Cannot set unreadable rows aside, will try again");
        }
        failed.is_none()
    }

    /// Closes unreadable messages of an origin where some wait and a turn can begin with none. Returns
    /// true if there were any.
    pub(super) async fn close_unreadable_at(&self, at: &Origin) -> Result<bool, StoreError> {
        let at = at.clone();
        let rows = self.read(move |store| unreadable_at(store, &at)).await?;
        self.close_unreadable(rows).await
    }
}
