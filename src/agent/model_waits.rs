//! Turns that wait for a model: the loop resumes them, or gives them up. `suspended` decides which ones are due.

use chrono::Utc;
use tokio::time::Instant;

use super::Agent;
use super::suspended::Suspended;
use crate::replies;
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::end::TurnEnd;
use crate::turn::error::CommitError;
use crate::types::origin::Origin;

impl Agent {
    /// Resumes the turns that wait for a model and are due, and gives up those whose time is over.
    pub(super) async fn resume_due_waits(&mut self) {
        let (now, clock) = (Instant::now(), Utc::now());
        let mut expired = Vec::new();
        for chain in self.suspended.chains.values_mut() {
            if let Some(suspended) = chain.first.and_then(|first| chain.waiting.get(&first))
                && !self.work_queue.is_released(&suspended.turn.origin)
                && !self.running.contains_key(&suspended.turn.origin)
            {
                // The released turn could not begin.
                chain.has_failed();
            }
            let is_news = std::mem::take(&mut chain.is_news);
            for suspended in chain.waiting.values().filter(|_| is_news) {
                let released = chain.is_back.then_some(suspended.turn.turn);
                self.work_queue.release(&suspended.turn.origin, released);
            }
            let (first, ended) = chain.choose(now, clock);
            expired.extend(ended);
            if let Some(suspended) = first.and_then(|first| chain.waiting.get(&first)) {
                self.work_queue.release(&suspended.turn.origin, first);
            }
        }
        for suspended in expired {
            if let Err(error) = self.give_up_waiting(&suspended).await {
                tracing::error!(%error, "Cannot give up waiting for a model, will try again");
            }
        }
    }

    /// Ends a turn whose maximum wait is over, with an explanation.
    async fn give_up_waiting(&self, suspended: &Suspended) -> Result<(), StoreError> {
        let Suspended { turn, wait } = suspended;
        tracing::warn!(turn = turn.turn.0, reason = wait.reason, "Gave up waiting for the model");
        let since = wait.since.with_timezone(&self.services.zone).format("%Y-%m-%d %H:%M");
        let message = replies::gave_up_waiting_for_model(&since.to_string(), &wait.reason);
        let end = TurnEnd::failed(turn, message, self.services.zone);
        let ended = commits::end_turn(&self.services.bus.store, turn.turn, None, end).await;
        self.services.bus.outbox.notify();
        self.services.bus.jobs.notify();
        match ended {
            Ok(_) | Err(CommitError::Ended) => Ok(()),
            Err(CommitError::Store(error)) => Err(error),
        }
    }

    /// Resumes a turn that waits for a model in a conversation, because a command may have changed the model.
    pub(super) fn try_again_at(&mut self, origin: &Origin) {
        let waiting = self.suspended.chains.values().flat_map(|chain| chain.waiting.values());
        let there = waiting.map(|it| &it.turn).find(|turn| turn.origin == *origin);
        if let Some(turn) = there.map(|turn| turn.turn) {
            self.work_queue.release(origin, Some(turn));
        }
    }
}
