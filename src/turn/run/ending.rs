//! The ends of a turn: an answer, a last report at a limit, or an explanation. Each is one commit, while no draft is
//! being sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};

use crate::bus::journal::InboundOutcome;
use crate::people::Role;
use crate::provider::{Completion, ProviderError, StopReason};
use crate::replies;
use crate::tools::message;
use crate::trust::taint;
use crate::turn::commits::{self, ModelStep};
use crate::turn::end::{TurnEnd, is_no_reply};
use crate::turn::error::{CommitError, TurnError};
use crate::turn::run::active::ActiveTurn;
use crate::turn::run::bounds::ReachedLimit;
use crate::turn::services::TurnServices;
use crate::types::event::EventKind;
use crate::types::message::MessageId;
use crate::types::session::{Session, TurnId, TurnOutcome};
use crate::types::source::{Source, SourcedText};

/// Maximum time that an answer waits for a draft that is being sent, so that it can replace it: even a slow link
/// answers by then. A draft that takes longer is deleted when it has arrived.
const DRAFT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Commits the end of a turn. Returns the draft if the answer is silence. If the turn keeps quiet hours and it is quiet
/// now, its reports are held back.
pub(super) async fn commit_end(
    turns: &TurnServices,
    turn: TurnId,
    last: Option<ModelStep>,
    mut end: TurnEnd,
    keeps_quiet: bool,
) -> Result<Option<MessageId>, CommitError> {
    end.is_quiet = keeps_quiet && turns.heartbeat.is_quiet();
    let is_held = end.is_quiet;
    let stale_draft = commits::end_turn(&turns.services.bus.store, turn, last, end).await?;
    if is_held {
        // The heartbeat then wakes at the end of the quiet hours.
        turns.heartbeat.switched.notify();
    }
    Ok(stale_draft)
}

impl ActiveTurn<'_> {
    /// Ends the turn with the text of a completion.
    pub(super) async fn answer(
        mut self,
        step: usize,
        completion: Completion,
    ) -> Result<Option<Session>, TurnError> {
        let (ending, message) = self.closing_message(&completion);
        let (message, files) = self.attach(message).await?;
        let model_step = self.model_step(step, completion);
        self.current().steps[step] = model_step.step();
        let mut end = self.end_with(String::new());
        // Whoever asked has no answer if the words only explain why there is none.
        end.outcome = match ending {
            TurnOutcome::Failed => InboundOutcome::Refused,
            TurnOutcome::Answered | TurnOutcome::Silent | TurnOutcome::Stopped => {
                InboundOutcome::Answered
            }
        };
        (end.ending, end.words, end.files) = (ending, message, files);
        self.end(end, Some(model_step)).await
    }

    /// Returns the outcome of the turn and the message to the person, for a completion without calls.
    fn closing_message(&self, completion: &Completion) -> (TurnOutcome, Option<String>) {
        let text = completion.text.trim();
        if is_no_reply(text) && self.owes_answer() {
            return (TurnOutcome::Answered, Some(replies::NOTHING_TO_SAY.to_owned()));
        }
        if is_no_reply(text) {
            return (TurnOutcome::Silent, None);
        }
        if text.is_empty() {
            let explanation = match completion.stop {
                Some(StopReason::Refused) => replies::MODEL_REFUSED,
                Some(StopReason::MaxTokens) if self.requester.role == Role::Owner => {
                    replies::LIMIT_USED_UP_OWNER
                }
                Some(StopReason::MaxTokens) => replies::LIMIT_USED_UP,
                _ if self.sent_here().next().is_some() => return (TurnOutcome::Answered, None),
                _ if self.limits.caller.may_be_silent() => return (TurnOutcome::Silent, None),
                _ => replies::EMPTY_ANSWER,
            };
            return (TurnOutcome::Failed, Some(explanation.to_owned()));
        }
        if self.sent_here().any(|sent| sent.trim() == text) {
            return (TurnOutcome::Answered, None);
        }
        let cut = (completion.stop == Some(StopReason::MaxTokens)).then_some(replies::CUT_SHORT);
        let parts = [Some(text), cut, completion.note.as_deref()];
        let answer = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        (TurnOutcome::Answered, Some(self.with_thoughts(&answer)))
    }

    /// Returns the message, preceded by the model's thinking if the conversation shows it.
    pub(super) fn with_thoughts(&self, message: &str) -> String {
        match self.session.settings.show_thinking && !self.thought.trim().is_empty() {
            true => format!("{}\n\n{message}", replies::quoted_thinking(&self.thought)),
            false => message.to_owned(),
        }
    }

    /// Returns the texts that the message tool has sent here in this turn.
    pub(super) fn sent_here(&self) -> impl Iterator<Item = String> {
        let calls = self.steps().iter().flat_map(|step| &step.calls);
        calls.filter_map(|call| message::sent_here(call, &self.limits.people_at))
    }

    /// Ends a turn that has reached a limit: a last completion reports what is done and what is left. Messages
    /// that came meanwhile stay for the next turn.
    pub(super) async fn finish_at_limit(
        mut self,
        limit: ReachedLimit,
        begun: Instant,
    ) -> Result<Option<Session>, TurnError> {
        let ReachedLimit { note, words: explanation } = limit;
        self.pending.clear();
        self.invoked.clear();
        let step = self.push_step(Some(SourcedText::of(Source::Program, note)), Vec::new());
        self.emit(|| EventKind::StepStart { step });
        match self.ask(false).await? {
            Ok(mut completion) if !completion.text.trim().is_empty() => {
                completion.calls.clear();
                completion.note = Some(match completion.note.take() {
                    Some(note) => format!("{explanation}\n\n{note}"),
                    None => explanation,
                });
                self.answer(step, completion).await
            }
            Err(error @ ProviderError::Busy { .. }) => self.fail(&error, begun).await,
            Ok(empty) => {
                let charge = self.charge(&empty);
                commits::charge_turn(&self.turns.services.bus.store, self.turn, charge).await?;
                self.give_up(explanation).await
            }
            Err(_) => self.give_up(explanation).await,
        }
    }

    /// Ends the turn without an answer, with an explanation to its person.
    pub(super) async fn give_up(self, explanation: String) -> Result<Option<Session>, TurnError> {
        let mut end = self.end_with(explanation);
        let draft_lock = self.lock_draft_at_end().await;
        end.over_draft = draft_lock.is_some();
        commit_end(self.turns, self.turn, None, end, self.limits.keeps_quiet).await?;
        self.emit(|| EventKind::TurnEnd { silent: false });
        self.log_end(TurnOutcome::Failed);
        Ok(None)
    }

    /// Returns the end of a failed turn with a message.
    pub(super) fn end_with(&self, message: String) -> TurnEnd {
        TurnEnd {
            ending: TurnOutcome::Failed,
            outcome: InboundOutcome::Refused,
            words: Some(message),
            files: Vec::new(),
            origin: self.session.origin.clone(),
            reply_to: self.requester.reply_to.clone(),
            over_draft: false,
            // Only the results of background tasks are passed on.
            tainted: self.limits.background.is_some()
                && taint::session_taint(&self.session, self.requester.role).is_some(),
            zone: self.turns.services.zone,
            is_quiet: false,
        }
    }

    /// Commits the end of a turn, and returns its session. `last` is the last step, if it is not in the store yet.
    pub(super) async fn end(
        mut self,
        mut end: TurnEnd,
        last: Option<ModelStep>,
    ) -> Result<Option<Session>, TurnError> {
        let (ending, silent) = (end.ending, end.words.is_none());
        let draft_lock = self.lock_draft_at_end().await;
        end.over_draft = draft_lock.is_some();
        let stale_draft =
            commit_end(self.turns, self.turn, last, end, self.limits.keeps_quiet).await?;
        self.erase(stale_draft);
        self.emit(|| EventKind::TurnEnd { silent });
        self.log_end(ending);
        self.current().ending = Some(ending);
        self.session.estimate.used = self.used();
        self.session.estimate.fixed = self.fixed_tokens + self.base.tools_tokens;
        self.turns.services.bus.outbox.notify();
        Ok(Some(self.session))
    }

    /// As [`Self::lock_draft`], at the end of the turn. A draft that takes too long is deleted when it arrives.
    pub(super) async fn lock_draft_at_end(&self) -> Option<OwnedMutexGuard<()>> {
        if let Some(draft_lock) = self.lock_draft().await {
            return Some(draft_lock);
        }
        self.handles.draft.send_modify(|draft| draft.left = true);
        // The draft may have arrived just before the flag was set.
        Arc::clone(&self.handles.draft_lock).try_lock_owned().ok()
    }

    /// Waits until no draft is being sent, and blocks further ones. None if a draft takes too long.
    pub(super) async fn lock_draft(&self) -> Option<OwnedMutexGuard<()>> {
        timeout(DRAFT_WAIT_MAX, Arc::clone(&self.handles.draft_lock).lock_owned()).await.ok()
    }

    /// Logs the end of the turn for the operator. A resumed turn has the figures since it was resumed.
    fn log_end(&self, ending: TurnOutcome) {
        tracing::info!(
            turn = self.turn.0,
            of = %self.session.origin,
            ?ending,
            ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            steps = self.steps_made(),
            tokens_in = self.spent.input,
            tokens_cached = self.spent.cached,
            tokens_out = self.spent.output,
            "A turn has ended"
        );
    }
}
