//! Rows whose work fails in the store: each is tried again after a rest, which holds up nothing else, and
//! after some times it is closed alone.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::agent::{Agent, STORE_PAUSE};
use crate::bus::journal::{RowId, UnreadableRow, Waiting, unreadable_at};
use crate::conversation::transcript::UnreadableTurn;
use crate::replies;
use crate::store::StoreError;
use crate::turn::commits::{self, CommitError};
use crate::turn::run::TurnError;
use crate::types::message::Address;

/// Times that a row's work may fail for a reason of its own; by then it will not work by itself.
const FAILURES_MAX: u32 = 3;

/// What fails, by its first row.
#[derive(Default)]
pub(super) struct Failing(HashMap<RowId, Failure>);

struct Failure {
    at: Address,
    times: u32,
    /// When it may be tried again.
    next: Instant,
}

impl Failing {
    /// Counts one more failure, and lets the row rest. True if that is the last one.
    fn count(&mut self, row: RowId, at: &Address, error: &StoreError) -> bool {
        let next = Instant::now() + STORE_PAUSE;
        let failure =
            self.0.entry(row).or_insert_with(|| Failure { at: at.clone(), times: 0, next });
        failure.next = next;
        // A disk that is full or fails is no fault of the row.
        failure.times += u32::from(matches!(error, StoreError::Change(_)));
        failure.times >= FAILURES_MAX
    }

    pub(super) fn forget(&mut self, row: RowId) {
        self.0.remove(&row);
    }

    /// Returns true while the row is not to be tried.
    pub(super) fn rests(&self, row: RowId) -> bool {
        self.0.get(&row).is_some_and(|failure| failure.next > Instant::now())
    }

    /// How long something at the address still rests, before which nothing is begun there.
    pub(super) fn rests_at(&self, at: &Address) -> Option<Duration> {
        let now = Instant::now();
        let there = self.0.values().filter(|failure| failure.at == *at && failure.next > now);
        there.map(|failure| failure.next - now).max()
    }

    /// How long until something is to be tried again.
    pub(super) fn next(&self) -> Option<Duration> {
        let now = Instant::now();
        self.0
            .values()
            .map(|failure| failure.next)
            .filter(|next| *next > now)
            .min()
            .map(|at| at - now)
    }
}

impl Agent {
    /// Carries a command out. One that fails rests, and is closed after some times.
    pub(super) async fn try_to_obey(&mut self, control: Waiting) {
        let (row, at) = (control.id, control.inbound.from.clone());
        match self.obey(control).await {
            Ok(()) => self.failing.forget(row),
            Err(error) => {
                tracing::error!(row = row.0, %error, "A command failed");
                self.has_failed(vec![row], &at, &error, replies::COMMAND_FAILED).await;
            }
        }
    }

    /// The turn that was to begin with these rows was not begun.
    pub(super) async fn not_begun(&mut self, rows: Vec<RowId>, at: &Address, error: &TurnError) {
        if let TurnError::Commit(CommitError::Store(error)) = error {
            self.has_failed(rows, at, error, replies::MESSAGE_FAILED).await;
        }
    }

    async fn has_failed(
        &mut self,
        rows: Vec<RowId>,
        at: &Address,
        error: &StoreError,
        words: &'static str,
    ) {
        let Some(first) = rows.first().copied() else { return };
        if !self.failing.count(first, at, error) {
            return;
        }
        match commits::failed(&self.means.bus.store, rows, error.to_string(), words).await {
            Ok(()) => self.failing.forget(first),
            Err(error) => tracing::error!(row = first.0, %error, "Cannot close what fails"),
        }
        self.means.bus.outbox.up();
    }

    /// Sets rows aside that cannot be read. Returns true if there were any.
    async fn close_unreadable(&self, rows: Vec<UnreadableRow>) -> Result<bool, StoreError> {
        if rows.is_empty() {
            return Ok(false);
        }
        commits::unreadable_rows(&self.means.bus.store, rows).await?;
        self.means.bus.outbox.up();
        Ok(true)
    }

    /// Sets commands aside and ends turns that cannot be read. Returns false if some of them are left, to be
    /// tried again.
    pub(super) async fn close_all_unreadable(
        &mut self,
        commands: Vec<UnreadableRow>,
        turns: Vec<UnreadableTurn>,
    ) -> bool {
        let mut failed = self.close_unreadable(commands).await.err();
        for turn in turns {
            match commits::unreadable_turn(&self.means.bus.store, turn).await {
                Ok(()) | Err(CommitError::Ended) => self.means.bus.outbox.up(),
                Err(CommitError::Store(error)) => {
                    // Only a look at all turns finds it again.
                    self.is_up_to_date = false;
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = &failed {
            tracing::error!(%error, "Cannot set aside what cannot be read, will try again");
        }
        failed.is_none()
    }

    /// Sets messages aside that cannot be read, at an address where some wait and none can be begun with. Returns
    /// true if there were any.
    pub(super) async fn close_unreadable_at(&self, at: &Address) -> Result<bool, StoreError> {
        let at = at.clone();
        let rows = self.read(move |store| unreadable_at(store, &at)).await?;
        self.close_unreadable(rows).await
    }
}
