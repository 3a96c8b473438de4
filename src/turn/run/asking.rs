//! Asks the model for the next step: makes room in the context window and reserves the call. The request includes the
//! pictures that the model may see, and its text is streamed to the draft.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::conversation::settings::settings_of;
use crate::conversation::{model_waits, tokens};
use crate::provider::{self, Attempts, Completion, Delta, Pictures, ProviderError, Request};
use crate::replies;
use crate::tools::more;
use crate::turn::compaction::KeptWhole;
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::turn::run::context_window::{CompactionOutcome, STEPS_WHOLE};
use crate::types::event::EventKind;
use crate::types::session::Session;

/// Time without output until people are shown how long the model is silent, and the interval of updates.
const SILENCE_SHOWN_AFTER: Duration = Duration::from_secs(20);
const SILENCE_SHOWN_EVERY: Duration = Duration::from_secs(10);

/// Maximum length of stored thinking. Once it is reached, no step adds more. It is far more than is shown.
const THOUGHT_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of times that a prompt is shortened because it is too long for the model.
const SHRUNK_MAX: usize = 2;

/// Results are shortened once that frees this part of the context window, in percent, so that the provider's cache is
/// rarely invalidated.
const SAVING_PERCENT: u64 = 10;

impl ActiveTurn<'_> {
    /// Returns one completion, after the prompt was fitted into the context window.
    pub(super) async fn ask(
        &mut self,
        may_call: bool,
    ) -> Result<Result<Completion, ProviderError>, TurnError> {
        self.apply_settings().await;
        self.refit().await?;
        if let Some(unreachable) = self.make_room().await? {
            return Ok(Err(unreachable));
        }
        let mut shrunk = 0;
        loop {
            let estimate = self.estimate();
            let counted = self.session.estimate.counted(estimate);
            if let Err(refused) = self.reserve_call(counted).await? {
                return Ok(Err(refused));
            }
            let completed = self.complete(may_call).await;
            if let Err(error) = &completed {
                self.release_call(error).await?;
            }
            match completed {
                Err(ProviderError::TooLong) if shrunk < SHRUNK_MAX => {
                    shrunk += 1;
                    // The refusal may have revealed the context window.
                    let is_refitted = self.refit().await?;
                    if is_refitted && let Some(unreachable) = self.make_room().await? {
                        return Ok(Err(unreachable));
                    }
                    if is_refitted && !self.is_over(tokens::FULL_AT) {
                        continue;
                    }
                    match self.shrink(shrunk).await? {
                        Ok(true) => {}
                        Ok(false) if is_refitted => {}
                        Ok(false) => return Ok(Err(ProviderError::TooLong)),
                        Err(unreachable) => return Ok(Err(unreachable)),
                    }
                }
                Ok(mut completion) => {
                    self.report_window().await?;
                    completion.calls =
                        completion.calls.into_iter().map(more::unwrap_call).collect();
                    // A fallback's tokenizer may count differently.
                    if completion.note.is_none() {
                        self.check_tools(estimate, &completion).await?;
                        self.session.estimate.learn(estimate, completion.usage.input);
                    }
                    completion.note = joined(completion.note, self.granted.warning.take());
                    return Ok(Ok(completion));
                }
                failed => return Ok(failed),
            }
        }
    }

    /// Shortens and compacts until the prompt fits into the context window. Returns an error if the model for the
    /// summary cannot be reached.
    async fn make_room(&mut self) -> Result<Option<ProviderError>, TurnError> {
        if self.is_over(tokens::SHORTEN_AT) {
            let saving_min = tokens::percent(self.context_window(), SAVING_PERCENT);
            self.shorten(STEPS_WHOLE, saving_min).await?;
        }
        if self.is_over(tokens::FULL_AT) {
            self.shorten(1, 1).await?;
        }
        if self.is_over(tokens::FULL_AT) {
            self.session.estimate.fixed = self.fixed_tokens + self.base.tools_tokens;
            let usual = KeptWhole::usual(&self.session, self.provider.context_window());
            let mut compacted = self.compact(usual).await?;
            while matches!(compacted, CompactionOutcome::Failed) && self.is_over(tokens::FULL_AT) {
                if !self.drop_half().await? {
                    compacted = CompactionOutcome::Nothing;
                }
            }
            if let CompactionOutcome::Away(error) = compacted {
                return Ok(Some(error));
            }
        }
        if self.is_over(tokens::FULL_AT)
            && let Err(away) = self.compact_turn(STEPS_WHOLE).await?
        {
            return Ok(Some(away));
        }
        if self.is_over(tokens::FULL_AT) {
            // This includes results that the model has not seen yet: a note tells how to read the rest.
            self.shorten(0, 1).await?;
        }
        Ok(None)
    }

    fn is_over(&mut self, percent: u64) -> bool {
        self.used() > tokens::percent(self.context_window(), percent)
    }

    /// Returns the tokens of the present prompt, corrected by the provider's counts.
    pub(super) fn used(&mut self) -> u64 {
        let estimate = self.estimate();
        self.session.estimate.counted(estimate)
    }

    /// Returns the estimated tokens of the present prompt.
    fn estimate(&mut self) -> u64 {
        if self.has_short_prompt() {
            return self.estimate_short_prompt();
        }
        let sees = self.provider.sees();
        let Session { turns, estimate, .. } = &mut self.session;
        let pictures = if sees { tokens::picture_tokens(turns) } else { 0 };
        self.fixed_tokens + self.base.tools_tokens + estimate.turns_tokens(turns) + pictures
    }

    /// Returns the usable context window of the provider, in tokens.
    fn context_window(&self) -> u64 {
        self.session.estimate.context_window(self.provider.context_window())
    }

    /// Returns one completion. If the model refuses a request with pictures, retries without them.
    async fn complete(&mut self, may_call: bool) -> Result<Completion, ProviderError> {
        let pictures = match self.provider.sees() {
            true => Pictures::read(&self.turns.services.workspace, self.shown_turns()).await,
            false => Pictures::default(),
        };
        match self.complete_with(&pictures, may_call).await {
            // A picture that the model rejects would block the conversation as long as it is shown.
            Err(ProviderError::Refused(reason) | ProviderError::Unauthorized(reason))
                if !pictures.is_empty() =>
            {
                tracing::warn!(
                    turn = self.turn.0,
                    reason,
                    "The model refused the request, will retry without pictures"
                );
                self.complete_with(&Pictures::default(), may_call).await
            }
            completed => completed,
        }
    }

    /// Applies the present settings of the conversation.
    async fn apply_settings(&mut self) {
        let (session, turn) = (self.session.id, self.turn);
        let query = move |store: &_| {
            Ok((settings_of(store, session)?, model_waits::chains_away(store, turn)?))
        };
        match self.turns.services.bus.store.read(query).await {
            Ok((settings, away)) => {
                let provider = self.turns.models.for_origin(
                    &self.session.origin,
                    &settings,
                    &self.session.persona,
                );
                if provider.name() != self.provider.name() {
                    self.session.estimate.forget_provider();
                }
                self.attempts = match self.wait.is_some() || away.contains(provider.name()) {
                    true => Attempts::Once,
                    false => Attempts::Usual,
                };
                if provider.name() != self.in_use.name() {
                    self.in_use = self.turns.models.all.in_use.begin_use(provider.name());
                }
                self.provider = provider;
                self.session.settings = settings;
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot read the settings, continuing with the earlier ones")
            }
        }
    }

    async fn complete_with(
        &mut self,
        pictures: &Pictures,
        may_call: bool,
    ) -> Result<Completion, ProviderError> {
        self.handles.draft.send_modify(|draft| {
            draft.text.clear();
            draft.doing = None;
        });
        let summary = self.shown_summary();
        let request = Request {
            system: &self.base.system,
            tools: &self.base.tools,
            facts: &self.base.facts,
            may_call,
            effort: self.session.settings.effort,
            attempts: self.attempts,
            tokens_max: self.granted.tokens_max.or(self.session.persona.tokens_max),
            messages: provider::transcript_as_messages(summary.as_deref(), self.shown_turns()),
            pictures,
        };
        let (mut is_thinking, mut thought) = (false, String::new());
        let has_begun = AtomicBool::new(false);
        let mut on_delta = |delta: &Delta| {
            self.note_begun(&has_begun);
            match delta {
                Delta::Text(text) => {
                    self.mark_thinking(&mut is_thinking, false);
                    self.handles.draft.send_modify(|draft| draft.text.push_str(text));
                    self.emit(|| EventKind::Text { text: text.clone() });
                }
                Delta::Thinking(text) => {
                    self.mark_thinking(&mut is_thinking, true);
                    thought.push_str(text);
                    self.emit(|| EventKind::Thinking { text: text.clone() });
                }
                Delta::Restart => {
                    thought.clear();
                    self.handles.draft.send_modify(|draft| draft.text.clear());
                }
                _ => {}
            }
        };
        let asking = provider::complete(self.provider.as_ref(), &request, &mut on_delta);
        let completed = tokio::select! {
            completed = asking => completed,
            never = self.show_silence(&has_begun) => match never {},
        };
        drop(request);
        self.mark_thinking(&mut is_thinking, false);
        if self.thought.len() < THOUGHT_BYTES_MAX && !thought.trim().is_empty() {
            self.thought.push_str(thought.trim());
            self.thought.push_str("\n\n");
        }
        completed
    }

    /// Shows how long the model has produced no output. Never returns.
    async fn show_silence(&self, has_begun: &AtomicBool) -> Infallible {
        let begun = Instant::now();
        sleep(SILENCE_SHOWN_AFTER).await;
        while !has_begun.load(Ordering::Relaxed) {
            let doing = replies::reading_prompt(begun.elapsed().as_secs());
            self.handles.draft.send_modify(|draft| draft.doing = Some(doing));
            sleep(SILENCE_SHOWN_EVERY).await;
        }
        pending().await
    }

    fn note_begun(&self, has_begun: &AtomicBool) {
        if !has_begun.swap(true, Ordering::Relaxed) {
            self.handles.draft.send_if_modified(|draft| draft.doing.take().is_some());
        }
    }

    /// Reports the beginning and the end of thinking as events.
    fn mark_thinking(&self, is_thinking: &mut bool, now: bool) {
        if std::mem::replace(is_thinking, now) != now {
            self.emit(|| if now { EventKind::ThinkingStart } else { EventKind::ThinkingEnd });
        }
    }
}

/// Returns two messages for the person as one, below each other.
fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    let lines: Vec<_> = one.into_iter().chain(other).collect();
    (!lines.is_empty()).then(|| lines.join("\n\n"))
}
