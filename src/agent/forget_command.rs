//! `/forget` in the loop: begins it when nothing else works in its chats, and handles its end. `forgettings` has the
//! running tasks, `forget` the work itself.

use std::sync::Arc;

use super::Agent;
use super::failing_items::Item;
use super::forget::{self, ForgetCommand};
use super::forgettings::{EndedForgetting, include_address};
use crate::bus::journal::WaitingMessage;
use crate::replies;
use crate::store::StoreError;
use crate::types::message::Address;
use crate::types::origin::Origin;

impl Agent {
    /// Begins to show what would be removed, or to remove it once nothing else works in these chats.
    pub(super) async fn forget(
        &mut self,
        control: WaitingMessage,
        order: Option<ForgetCommand>,
    ) -> Result<(), StoreError> {
        let Some(work) = forget::prepare(&self.services, &control, order).await? else {
            return Ok(());
        };
        if !work.is_final() {
            self.forgettings.begin(Arc::clone(&self.turns), control, work);
            return Ok(());
        }
        let is_in_chats =
            |origin: &Origin| origin.chat().is_some_and(|at| include_address(work.chats(), at));
        let is_side_question_there = |at: &Address| include_address(work.chats(), at);
        // The store has no turn there, but notes, summaries or side questions may run, or a turn may just have ended.
        let is_busy = self.running.keys().chain(self.compacting.keys()).any(is_in_chats)
            || self.side_questions.places().any(is_side_question_there);
        if is_busy || self.forgettings.is_any() {
            self.forgettings.defer(control.id);
            return Ok(());
        }
        self.idle.clear();
        self.forgettings.begin(Arc::clone(&self.turns), control, work);
        Ok(())
    }

    /// Handles the end of a task that forgets words.
    pub(super) async fn finish_forgetting(&mut self, ended: EndedForgetting) {
        let EndedForgetting { row, origin, result } = ended;
        self.work_queue.touch(&origin);
        match result {
            Ok(Ok(())) => self.failing.forget(Item::Row(row)),
            Ok(Err(error)) => {
                tracing::error!(row = row.0, %error, "Cannot forget words");
                self.handle_row_failure(vec![row], &origin, &error, replies::COMMAND_FAILED).await;
            }
            Err(error) => {
                tracing::error!(row = row.0, %error, "The task that forgets words panicked");
                self.handle_panic(vec![row], &origin, false).await;
            }
        }
    }
}
