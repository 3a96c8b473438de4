//! A turn whose model cannot be reached: it is suspended until the model is back, for as long as the config and
//! its origin allow, or ends with an explanation.

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::conversation::model_waits::ModelWait;
use crate::people::Role;
use crate::provider::ProviderError;
use crate::replies;
use crate::tasks::schedule;
use crate::turn::commits::{self, Suspension, WaitNotice};
use crate::turn::end::{TurnEnd, failure_words};
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::types::event::EventKind;
use crate::types::origin::Origin;
use crate::types::session::Session;

impl ActiveTurn<'_> {
    /// The turn got no completion. `begun` is when its task began.
    pub(super) async fn fail(
        self,
        error: &ProviderError,
        begun: Instant,
    ) -> Result<Option<Session>, TurnError> {
        if let ProviderError::OverBudget(words) = error {
            if self.part.background.is_some_and(|kind| kind.is_silent_over_budget()) {
                let end = TurnEnd::silent(&self.session.origin);
                return self.end(end, None).await;
            }
            return self.give_up(words.clone()).await;
        }
        if let Some(wait) = self.wait_for(error).await? {
            if !wait.is_over(Utc::now()) {
                return self.await_model(wait, begun).await;
            }
            tracing::warn!(turn = self.turn.0, %error, "Gave up waiting for the model");
            let words = replies::gave_up_waiting_for_model(&self.time_of(wait.since), &wait.reason);
            return self.give_up(words).await;
        }
        tracing::warn!(turn = self.turn.0, %error, "The model gave no answer");
        self.turns.last_error.set(error);
        self.emit(|| EventKind::Error { text: error.to_string() });
        let words = match self.part.background {
            None => failure_words(error, self.asker.role),
            Some(kind) => kind.failure_words(error, self.asker.role),
        };
        self.give_up(words).await
    }

    /// The wait that follows from a failure; none if waiting does not help, or is switched off.
    async fn wait_for(&self, error: &ProviderError) -> Result<Option<ModelWait>, TurnError> {
        let (ProviderError::Busy { reason, .. }, Some(most)) =
            (error, self.turns.config.wait_for_model)
        else {
            return Ok(None);
        };
        let (now, chain) = (Utc::now(), self.provider.name().to_owned());
        if let Some(before) = &self.wait {
            let renewed = before.renewed(reason, now, schedule::release());
            return Ok(Some(ModelWait { chain, ..renewed }));
        }
        let most = now + chrono::Duration::from_std(most).unwrap_or(chrono::Duration::MAX);
        let until = self.next_run().await?.map_or(most, |next| next.min(most));
        Ok(Some(ModelWait { chain, reason: reason.clone(), since: now, until, failures: 1 }))
    }

    /// The next due time of the job or the heartbeat of which the turn is a run, if there is one.
    async fn next_run(&self) -> Result<Option<DateTime<Utc>>, TurnError> {
        if let (Some(kind), Some(task)) = (self.part.background, self.session.origin.task()) {
            return Ok(kind.next_run(self.turns, task.number).await?);
        }
        let turn = self.turn;
        let run = move |store: &_| schedule::of_turn(store, turn);
        Ok(self.turns.services.bus.store.read(run).await?.and_then(|run| run.job.next))
    }

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
            Origin::Chat(at) => Some((at.clone(), self.asker.reply_to.clone())),
            Origin::Task { .. } => self
                .part
                .background
                .filter(|kind| kind.is_awaited())
                .map(|_| (self.part.people_at.clone(), None)),
        };
        let words = match self.asker.role {
            Role::Owner => replies::model_away_because(&wait.reason),
            _ => replies::MODEL_UNREACHABLE.to_owned(),
        };
        let line = people.map(|(to, reply_to)| WaitNotice { to, reply_to, words });
        let quiet = self.quiet_at_end().await;
        let suspension = Suspension { wait, line };
        let store = &self.turns.services.bus.store;
        let draft = commits::waits_for_model(store, turn, suspension).await?;
        drop(quiet);
        self.erase(draft);
        self.suspend(begun).await
    }

    fn time_of(&self, at: DateTime<Utc>) -> String {
        at.with_timezone(&self.turns.services.zone).format("%Y-%m-%d %H:%M").to_string()
    }
}
