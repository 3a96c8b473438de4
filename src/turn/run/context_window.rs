//! Ways to keep a turn within the context window. `asking.rs` uses them before each request to the model, and again
//! when the model refuses a request as too long.

use crate::bus::notices;
use crate::conversation::ledger::Charge;
use crate::conversation::transcript::Summaries;
use crate::conversation::{shorten, tokens};
use crate::provider::{LearnedWindow, ProviderError, Usage};
use crate::replies;
use crate::turn::commits::{self, CompactionCommit};
use crate::turn::compaction::separation;
use crate::turn::compaction::{self, CompactionJob, KeptWhole};
use crate::turn::error::TurnError;
use crate::turn::frozen;
use crate::turn::instructions;
use crate::turn::run::active::ActiveTurn;
use crate::turn::spending::Granted;
use crate::types::event::EventKind;
use crate::types::session::{FrozenContext, StepMark};

/// Number of newest steps of the running turn whose results are not shortened, because the model works with them.
pub(super) const STEPS_WHOLE: usize = 2;

/// The result of compacting the conversation.
pub(super) enum CompactionOutcome {
    Done,
    /// Nothing can be compacted.
    Nothing,
    /// No summary could be made.
    Failed,
    /// The summariser is the model of the turn, and cannot be reached.
    Away(ProviderError),
}

impl ActiveTurn<'_> {
    /// Makes system prompt, tools and memory anew if the context window is smaller than expected. Returns true if so.
    pub(super) async fn refit(&mut self) -> Result<bool, TurnError> {
        if self.provider.context_window() >= self.base.context_window {
            return Ok(false);
        }
        let (role, caller) = (self.requester.role, self.limits.caller);
        let shares = instructions::shares(self.turns, &self.session, role, caller);
        let recalls = frozen::recalls(&self.session, role);
        if recalls.is_some() && self.limits.background.is_none() {
            let services = &self.turns.services;
            let recalls = recalls.as_ref();
            let mut frozen = frozen::remembered(services, None, recalls, &shares).await.0;
            frozen.facts = frozen::renewed_facts(self.session.frozen.as_ref());
            let (store, turn, id) = (&services.bus.store, self.turn, self.session.id);
            commits::store_frozen_memory(store, turn, id, frozen.clone()).await?;
            self.session.frozen = Some(frozen);
        }
        self.rebuild().await;
        Ok(true)
    }

    /// Makes the system prompt and the tools anew.
    async fn rebuild(&mut self) {
        let (speaker, caller) = (self.requester.speaker(), self.limits.caller);
        let base = instructions::base(self.turns, &self.session, speaker, caller).await;
        let summary = self.session.summary.as_deref();
        self.fixed_tokens = tokens::fixed_tokens(&base.system, summary);
        self.base = base;
    }

    /// Notifies the owner once if the model's context window differs from the expected one.
    pub(super) async fn report_window(&self) -> Result<(), TurnError> {
        let Some(window) = self.provider.learned_window() else { return Ok(()) };
        let (name, LearnedWindow { given, is_set, tokens }) = (self.provider.name(), window);
        let message = replies::window_learned(name, tokens, given, is_set);
        let key = format!("window {name} {tokens}");
        Ok(notices::notify_owner(&self.turns.services.bus, key, message).await?)
    }

    /// Shortens a prompt that was too long for the model. Returns false if nothing can be left out.
    pub(super) async fn shrink(
        &mut self,
        times: usize,
    ) -> Result<Result<bool, ProviderError>, TurnError> {
        let used = self.used();
        // A context window that the model has reported is trusted.
        if self.provider.learned_window().is_none() || used <= self.provider.context_window() {
            self.session.estimate.lower_ceiling(used, self.provider.context_window());
        }
        let shortened = self.shorten(1, 1).await?;
        let whole = KeptWhole::least(compaction::WHOLE_TURNS_MIN + 1 - times);
        let shorter = match self.compact(whole).await? {
            CompactionOutcome::Done => true,
            CompactionOutcome::Nothing => match self.compact_turn(STEPS_WHOLE + 1 - times).await? {
                Ok(true) => true,
                Ok(false) => self.shorten(0, 1).await?,
                Err(away) => return Ok(Err(away)),
            },
            CompactionOutcome::Failed => self.drop_half().await?,
            CompactionOutcome::Away(error) => return Ok(Err(error)),
        };
        Ok(Ok(shortened || shorter))
    }

    /// Permanently shortens old results, if that saves at least `saving_min` tokens. Returns true if it did.
    pub(super) async fn shorten(
        &mut self,
        steps_whole: usize,
        saving_min: u64,
    ) -> Result<bool, TurnError> {
        let session = &self.session;
        let Some(mark) = shorten::mark(&session.turns, steps_whole) else { return Ok(false) };
        // The mark never moves back, because shortened results stay shortened.
        let mark: StepMark = session.shortened.map_or(mark, |before| before.max(mark));
        let saving = session.estimate.counted(shorten::saving(&session.turns, mark));
        if saving < saving_min.max(1) {
            return Ok(false);
        }
        commits::store_shortening(&self.turns.services.bus.store, self.turn, session.id, mark)
            .await?;
        shorten::apply(&mut self.session.turns, mark);
        self.session.estimate.recount();
        self.session.shortened = Some(mark);
        Ok(true)
    }

    /// Compacts earlier turns into the summary at once.
    pub(super) async fn compact(
        &mut self,
        whole: KeptWhole,
    ) -> Result<CompactionOutcome, TurnError> {
        match CompactionJob::of(&self.session, whole, None) {
            Some(job) => self.summarize(&job).await,
            None => Ok(CompactionOutcome::Nothing),
        }
    }

    /// Compacts all but the newest steps of the running turn, and all earlier turns. Returns false if there are none.
    /// The summary includes a record of their calls. Steps without a summary are left out.
    pub(super) async fn compact_turn(
        &mut self,
        steps_whole: usize,
    ) -> Result<Result<bool, ProviderError>, TurnError> {
        let Some(job) = CompactionJob::within(&self.session, steps_whole) else {
            return Ok(Ok(false));
        };
        match self.summarize(&job).await? {
            CompactionOutcome::Done => Ok(Ok(true)),
            CompactionOutcome::Nothing => Ok(Ok(false)),
            CompactionOutcome::Away(error) => Ok(Err(error)),
            CompactionOutcome::Failed => {
                tracing::warn!(turn = self.turn.0, "Left out steps without a summary");
                self.drop_without_summary(&job).await.map(Ok)
            }
        }
    }

    async fn summarize(&mut self, job: &CompactionJob) -> Result<CompactionOutcome, TurnError> {
        let (turns, used) = (job.turns.len(), self.used());
        tracing::info!(turn = self.turn.0, turns, used, "Compacting before a model call");
        self.handles.draft.send_modify(|draft| draft.doing = Some(replies::COMPACTING.to_owned()));
        let summary_max =
            compaction::summary_tokens_max(&self.session, self.provider.context_window());
        let audience =
            separation::separated_for(self.turns, &self.session, self.requester.role, job);
        let output = if audience.is_some() { 2 * summary_max } else { summary_max };
        let granted = match self.reserve_summary(job.frees(), output).await? {
            Ok(granted) => granted,
            Err(error) => {
                tracing::info!(turn = self.turn.0, %error, "Left older messages out without a summary");
                return Ok(CompactionOutcome::Failed);
            }
        };
        let mut spent = Usage::default();
        let summariser = &*self.turns.models.summariser;
        let made =
            separation::summarize_with_trusted(summariser, job, audience, summary_max, &mut spent);
        let made = Box::pin(made).await;
        match made {
            Ok(summaries) => {
                let charge = self.summary_charge(&granted, spent);
                match self.commit_compaction(job, summaries, charge).await? {
                    true => Ok(CompactionOutcome::Done),
                    false => Ok(CompactionOutcome::Nothing),
                }
            }
            Err(error) => {
                tracing::warn!(turn = self.turn.0, %error, "The model gave no summary");
                let charge = self.summary_charge(&granted, spent);
                commits::charge_turn(&self.turns.services.bus.store, self.turn, charge).await?;
                let waits = self.turns.config.wait_for_model.is_some();
                let is_same = self.summariser() == self.provider.name();
                Ok(match error {
                    ProviderError::Busy { .. } if waits && is_same => {
                        CompactionOutcome::Away(error)
                    }
                    _ => CompactionOutcome::Failed,
                })
            }
        }
    }

    /// Removes the older half of the earlier turns from the prompt. Returns false if there are none.
    pub(super) async fn drop_half(&mut self) -> Result<bool, TurnError> {
        let before = self.session.turns.len() - 1;
        let Some(job) = CompactionJob::up_to(&self.session, before.div_ceil(2), None) else {
            return Ok(false);
        };
        tracing::warn!(
            turn = self.turn.0,
            turns = job.turns.len(),
            "Dropped old turns without a summary"
        );
        self.drop_without_summary(&job).await
    }

    /// Leaves out the turns and steps of a compaction. The former summary stays.
    async fn drop_without_summary(&mut self, job: &CompactionJob) -> Result<bool, TurnError> {
        let free = self.summary_charge(&Granted::default(), Usage::default());
        let audience =
            separation::separated_for(self.turns, &self.session, self.requester.role, job);
        self.commit_compaction(job, job.former_summary(audience), free).await
    }

    async fn commit_compaction(
        &mut self,
        job: &CompactionJob,
        summaries: Summaries,
        spent: Charge,
    ) -> Result<bool, TurnError> {
        let recalls = frozen::recalls(&self.session, self.requester.role);
        // The memory is read again: the messages that reported its changes are removed, and the cache is invalid
        // anyway.
        let frozen = match &recalls {
            Some(_) => {
                let (role, caller) = (self.requester.role, self.limits.caller);
                let shares = instructions::shares(self.turns, &self.session, role, caller);
                let services = &self.turns.services;
                let recalls = recalls.as_ref();
                let renewed = frozen::remembered(services, None, recalls, &shares).await.0;
                let facts = frozen::renewed_facts(self.session.frozen.as_ref());
                Some(FrozenContext { facts, ..renewed })
            }
            None => None,
        };
        let spent = (self.turn, spent);
        let compacted = CompactionCommit::new(job, summaries.clone(), frozen.clone(), spent);
        if !commits::commit_turn_compaction(&self.turns.services.bus.store, self.turn, compacted)
            .await?
        {
            return Ok(false);
        }
        job.apply(&mut self.session, summaries);
        self.session.frozen = frozen;
        self.rebuild().await;
        self.emit(|| EventKind::Compacted { turns: job.turns.len() });
        Ok(true)
    }

    fn summariser(&self) -> String {
        self.turns.models.summariser.name().to_owned()
    }
}
