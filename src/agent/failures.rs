//! Handles work that failed in the store: a command or a message is tried again after a pause, and closed after some
//! failures. `failing_items` counts the failures.

use super::Agent;
use super::failing_items::Item;
use crate::bus::journal::{RowId, UnreadableRow, WaitingMessage, unreadable_at};
use crate::conversation::asks::Ask;
use crate::conversation::transcript::UnreadableTurn;
use crate::replies;
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::error::{CommitError, TurnError};
use crate::types::origin::Origin;

impl Agent {
    /// Carries a command out. A failing one pauses, and is closed after some failures.
    pub(super) async fn try_to_handle(&mut self, control: WaitingMessage) {
        let (row, at) = (control.id, control.origin.clone());
        match self.handle(control).await {
            Ok(()) => self.failing.forget(Item::Row(row)),
            Err(error) => {
                tracing::error!(row = row.0, %error, "A command failed");
                self.handle_row_failure(vec![row], &at, &error, replies::COMMAND_FAILED).await;
            }
        }
    }

    /// Handles rows with which a turn could not begin.
    pub(super) async fn handle_begin_failure(
        &mut self,
        rows: Vec<RowId>,
        at: &Origin,
        error: &TurnError,
    ) {
        if let TurnError::Commit(CommitError::Store(error)) = error {
            self.handle_row_failure(rows, at, error, replies::MESSAGE_FAILED).await;
        }
    }

    /// Counts a failure of these rows, and closes them with `reply` after too many.
    pub(super) async fn handle_row_failure(
        &mut self,
        rows: Vec<RowId>,
        at: &Origin,
        error: &StoreError,
        reply: &'static str,
    ) {
        let Some(first) = rows.first().copied() else { return };
        let is_change = matches!(error, StoreError::Change(_));
        if is_change && self.failing.separate_messages(at, &rows) {
            tracing::warn!(
                rows = rows.len(),
                "A turn could not start, will try its messages one by one"
            );
            return;
        }
        if !self.failing.count(Item::Row(first), at, error) {
            return;
        }
        match commits::close_failing_rows(&self.services.bus.store, rows, error.to_string(), reply)
            .await
        {
            Ok(()) => self.failing.forget(Item::Row(first)),
            Err(error) => tracing::error!(row = first.0, %error, "Cannot close a failing message"),
        }
        self.wake_after_ends();
    }

    /// Wakes the deliveries, and the heartbeat: reports of a run that was ended may be held until the quiet hours are over.
    fn wake_after_ends(&self) {
        self.services.bus.outbox.notify();
        self.turns.heartbeat.switched.notify();
    }

    /// Handles a panicked turn that may not have begun with these rows. Several rows are tried again one
    /// by one; a single one is closed.
    pub(super) async fn handle_panic(&mut self, rows: Vec<RowId>, at: &Origin, begun: bool) {
        if !begun && self.failing.separate_messages(at, &rows) {
            return;
        }
        let close = commits::close_failed_messages(&self.services.bus.store, rows, at.clone());
        if let Err(error) = close.await {
            tracing::error!(%error, "Cannot report that a turn failed");
        }
        self.wake_after_ends();
    }

    /// Handles an ask that could not be settled: it pauses, and after some failures it is closed with its
    /// turn.
    pub(super) async fn handle_ask_failure(&mut self, ask: Ask, error: &StoreError) {
        let item = Item::Ask(ask.id);
        tracing::error!(ask = ask.id.0, %error, "Cannot settle a question of a suspended turn, will try again");
        if !self.failing.count(item, &Origin::from(&ask.at), error) {
            return;
        }
        let id = ask.id.0;
        match commits::close_failing_ask(&self.services.bus.store, ask, error.to_string()).await {
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
        commits::close_unreadable_rows(&self.services.bus.store, rows).await?;
        self.wake_after_ends();
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
            match commits::end_unreadable_turn(&self.services.bus.store, turn).await {
                Ok(()) | Err(CommitError::Ended) => self.wake_after_ends(),
                Err(CommitError::Store(error)) => {
                    // Only a complete read finds it again.
                    self.work_queue.require_full_read();
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
