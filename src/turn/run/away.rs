//! A turn without a completion: if the model cannot be reached, it is suspended for as long as the config and its
//! origin allow. Otherwise it ends with an explanation.

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::conversation::model_waits::ModelWait;
use crate::people::Role;
use crate::provider::ProviderError;
use crate::replies;
use crate::tasks::schedule;
use crate::turn::commits::{self, Suspension, WaitNotice};
use crate::turn::end::{TurnEnd, failure_text};
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::types::event::EventKind;
use crate::types::origin::Origin;
use crate::types::session::Session;

impl ActiveTurn<'_> {
    /// Handles a step without a completion: suspends the turn, or ends it. `begun` is the start of its task.
    pub(super) async fn fail(
        self,
        error: &ProviderError,
        begun: Instant,
    ) -> Result<Option<Session>, TurnError> {
        if let ProviderError::OverBudget(explanation) = error {
            if self.limits.background.is_some_and(|kind| kind.is_silent_over_budget()) {
                let end = TurnEnd::silent(&self.session.origin);
                return self.end(end, None).await;
            }
            return self.give_up(explanation.clone()).await;
        }
        if let Some(wait) = self.wait_for(error).await? {
            if !wait.is_over(Utc::now()) {
                return self.await_model(wait, begun).await;
            }
            tracing::warn!(turn = self.turn.0, %error, "Gave up waiting for the model");
            let since = self.time_of(wait.since);
            return self.give_up(replies::gave_up_waiting_for_model(&since, &wait.reason)).await;
        }
        tracing::warn!(turn = self.turn.0, %error, "The model gave no answer");
        self.turns.last_error.set(error);
        self.emit(|| EventKind::Error { text: error.to_string() });
        let explanation = match self.limits.background {
            None => failure_text(error, self.requester.role),
            Some(kind) => kind.failure_text(error, self.requester.role),
        };
        self.give_up(explanation).await
    }

    /// Returns the wait that follows from a failure. None if waiting does not help, or is switched off.
    async fn wait_for(&self, error: &ProviderError) -> Result<Option<ModelWait>, TurnError> {
        let (ProviderError::Busy { reason, .. }, Some(wait_max)) =
            (error, self.turns.config.wait_for_model)
        else {
            return Ok(None);
        };
        let (now, chain) = (Utc::now(), self.provider.name().to_owned());
        if let Some(before) = &self.wait {
            let renewed = before.renewed(reason, now, schedule::release());
            return Ok(Some(ModelWait { chain, ..renewed }));
        }
        let latest = now + chrono::Duration::from_std(wait_max).unwrap_or(chrono::Duration::MAX);
        let until = self.next_run().await?.map_or(latest, |next| next.min(latest));
        Ok(Some(ModelWait { chain, reason: reason.clone(), since: now, until, failures: 1 }))
    }

    /// Returns the next due time of the job or the heartbeat, if the turn is a run of one.
    async fn next_run(&self) -> Result<Option<DateTime<Utc>>, TurnError> {
        if let (Some(kind), Some(task)) = (self.limits.background, self.session.origin.task()) {
            return Ok(kind.next_run(self.turns, task.number).await?);
        }
        let turn = self.turn;
        let run = move |store: &_| schedule::find_turn_run(store, turn);
        Ok(self.turns.services.bus.store.read(run).await?.and_then(|run| run.job.next))
    }

    /// Suspends the turn until the model is back, and notifies the people who wait.
    async fn await_model(
        self,
        wait: ModelWait,
        begun: Instant,
    ) -> Result<Option<Session>, TurnError> {
        let turn = self.turn;
        if self.wait.is_none() {
            tracing::warn!(turn = turn.0, reason = wait.reason, "The turn waits for the model");
        }
        let people = match &self.session.origin {
            Origin::Chat(at) => Some((at.clone(), self.requester.reply_to.clone())),
            Origin::Task { .. } => self
                .limits
                .background
                .filter(|kind| kind.is_awaited())
                .map(|_| (self.limits.people_at.clone(), None)),
        };
        let notice = match self.requester.role {
            Role::Owner => replies::model_away_because(&wait.reason),
            _ => replies::MODEL_UNREACHABLE.to_owned(),
        };
        let line = people.map(|(to, reply_to)| WaitNotice { to, reply_to, words: notice });
        let draft_lock = self.lock_draft_at_end().await;
        let suspension = Suspension { wait, line };
        let store = &self.turns.services.bus.store;
        let draft = commits::suspend_for_model(store, turn, suspension).await?;
        drop(draft_lock);
        self.erase(draft);
        self.suspend(begun).await
    }

    fn time_of(&self, at: DateTime<Utc>) -> String {
        at.with_timezone(&self.turns.services.zone).format("%Y-%m-%d %H:%M").to_string()
    }
}
