//! Turns that wait for a model: the loop lets them go on, or gives them up. `suspended` decides whose time it is.

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
    /// Lets turns go on that wait for a model, as far as it is time, and gives up those whose time is over.
    pub(super) async fn look_after_waits(&mut self) {
        let (now, clock) = (Instant::now(), Utc::now());
        let mut over = Vec::new();
        for chain in self.away.chains.values_mut() {
            if let Some(it) = chain.first.and_then(|first| chain.waiting.get(&first))
                && !self.backlog.is_released(&it.turn.origin)
                && !self.running.contains_key(&it.turn.origin)
            {
                // It could not begin.
                chain.has_failed();
            }
            let is_news = std::mem::take(&mut chain.is_news);
            for it in chain.waiting.values().filter(|_| is_news) {
                let go = chain.is_back.then_some(it.turn.turn);
                self.backlog.release(&it.turn.origin, go);
            }
            let (first, ended) = chain.choose(now, clock);
            over.extend(ended);
            if let Some(it) = first.and_then(|first| chain.waiting.get(&first)) {
                self.backlog.release(&it.turn.origin, first);
            }
        }
        for suspended in over {
            if let Err(error) = self.give_up_waiting(&suspended).await {
                tracing::error!(%error, "Cannot give up waiting for a model, will try again");
            }
        }
    }

    /// Ends a turn that has waited for as long as it may.
    async fn give_up_waiting(&self, suspended: &Suspended) -> Result<(), StoreError> {
        let Suspended { turn, wait } = suspended;
        tracing::warn!(turn = turn.turn.0, reason = wait.reason, "Gave up waiting for the model");
        let since = wait.since.with_timezone(&self.services.zone).format("%Y-%m-%d %H:%M");
        let words = replies::gave_up_waiting_for_model(&since.to_string(), &wait.reason);
        let end = TurnEnd::failed(turn, words, self.services.zone);
        let ended = commits::answer(&self.services.bus.store, turn.turn, None, end).await;
        self.services.bus.outbox.up();
        self.services.bus.jobs.up();
        match ended {
            Ok(_) | Err(CommitError::Ended) => Ok(()),
            Err(CommitError::Store(error)) => Err(error),
        }
    }

    /// People may have changed who answers in a conversation: a turn that waits there tries again at once.
    pub(super) fn try_again_at(&mut self, origin: &Origin) {
        let waiting = self.away.chains.values().flat_map(|chain| chain.waiting.values());
        let there = waiting.map(|it| &it.turn).find(|turn| turn.origin == *origin);
        if let Some(turn) = there.map(|turn| turn.turn) {
            self.backlog.release(origin, Some(turn));
        }
    }
}
