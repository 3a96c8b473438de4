//! How a turn keeps within what the model takes at once: before each question to it, and once more
//! when it was too much all the same.

use crate::bus::notices;
use crate::conversation::{shorten, tokens};
use crate::memory::audience;
use crate::provider::{Completion, LearnedWindow, ProviderError, Usage};
use crate::replies;
use crate::tools::more;
use crate::turn::commits::{self, Folded};
use crate::turn::compaction::{self, Job, Whole};
use crate::turn::error::TurnError;
use crate::turn::instructions;
use crate::turn::run::active::Active;
use crate::types::event::Happening;
use crate::types::session::{Mark, Session};
use crate::workspace::Audience;

/// Steps of the turn that runs whose results are not shortened: what the model works with.
const STEPS_WHOLE: usize = 2;

/// Results are shortened once that frees so much of the room, in percent, so that the cache breaks rarely.
const SAVING_PERCENT: u64 = 10;

/// A prompt that is too long for the model is made shorter so often.
const SHRUNK_MAX: usize = 2;

/// What came of folding the conversation.
enum Compaction {
    Done,
    /// All of it must stay.
    Nothing,
    /// There is no summary to be had.
    Failed,
    /// The model that answers makes the summaries, too, and cannot be reached.
    Away(ProviderError),
}

impl Active<'_> {
    /// One completion for which there is room.
    pub(super) async fn ask(
        &mut self,
        may_call: bool,
    ) -> Result<Result<Completion, ProviderError>, TurnError> {
        self.heed_settings().await;
        self.refit().await?;
        if let Some(away) = self.make_room().await? {
            return Ok(Err(away));
        }
        let mut shrunk = 0;
        loop {
            let estimate = self.estimate();
            match self.complete(may_call).await {
                Err(ProviderError::TooLong) if shrunk < SHRUNK_MAX => {
                    shrunk += 1;
                    // The refusal may have told how much the model takes.
                    let is_refitted = self.refit().await?;
                    if is_refitted && let Some(away) = self.make_room().await? {
                        return Ok(Err(away));
                    }
                    if is_refitted && !self.is_over(tokens::FULL_AT) {
                        continue;
                    }
                    match self.shrink(shrunk).await? {
                        Ok(true) => {}
                        Ok(false) if is_refitted => {}
                        Ok(false) => return Ok(Err(ProviderError::TooLong)),
                        Err(away) => return Ok(Err(away)),
                    }
                }
                Ok(mut completion) => {
                    self.tell_window().await?;
                    completion.calls = completion.calls.into_iter().map(more::meant).collect();
                    // Another provider counts otherwise.
                    if completion.note.is_none() {
                        self.session.gauge.learn(estimate, completion.usage.input);
                    }
                    return Ok(Ok(completion));
                }
                failed => return Ok(failed),
            }
        }
    }

    /// Tokens of the prompt as it is now.
    pub(super) fn used(&mut self) -> u64 {
        let estimate = self.estimate();
        self.session.gauge.counted(estimate)
    }

    fn estimate(&mut self) -> u64 {
        let sees = self.provider.sees();
        let Session { turns, gauge, .. } = &mut self.session;
        let pictures = if sees { tokens::picture_tokens(turns) } else { 0 };
        self.fixed_tokens + self.tools_tokens + gauge.turns_tokens(turns) + pictures
    }

    fn room(&self) -> u64 {
        self.session.gauge.room(self.provider.room())
    }

    fn is_over(&mut self, percent: u64) -> bool {
        self.used() > tokens::percent(self.room(), percent)
    }

    /// Returns the error if the model cannot be reached that would have to make room.
    async fn make_room(&mut self) -> Result<Option<ProviderError>, TurnError> {
        if self.is_over(tokens::SHORTEN_AT) {
            let worth = tokens::percent(self.room(), SAVING_PERCENT);
            self.shorten(STEPS_WHOLE, worth).await?;
        }
        if self.is_over(tokens::FULL_AT) {
            self.shorten(1, 1).await?;
        }
        if self.is_over(tokens::FULL_AT) {
            self.session.gauge.fixed = self.fixed_tokens + self.tools_tokens;
            let usual = Whole::usual(&self.session, self.provider.room());
            let mut compacted = self.compact(usual).await?;
            while matches!(compacted, Compaction::Failed) && self.is_over(tokens::FULL_AT) {
                if !self.forget_half().await? {
                    compacted = Compaction::Nothing;
                }
            }
            if let Compaction::Away(error) = compacted {
                return Ok(Some(error));
            }
        }
        if self.is_over(tokens::FULL_AT)
            && let Err(away) = self.compact_turn().await?
        {
            return Ok(Some(away));
        }
        if self.is_over(tokens::FULL_AT) {
            // Also what the model has not seen yet: it is told how to read the rest.
            self.shorten(0, 1).await?;
        }
        Ok(None)
    }

    /// Makes system prompt, tools and memory anew if the model takes less than they were made for.
    async fn refit(&mut self) -> Result<bool, TurnError> {
        if self.provider.room() >= self.fitted {
            return Ok(false);
        }
        let (role, caller) = (self.asker.role, self.part.caller);
        let shares = instructions::shares(self.turns, &self.session, role, caller);
        let audience = audience(self.asker.role, self.session.place);
        if audience == Audience::Owner && self.part.background.is_none() {
            let services = &self.turns.services;
            let frozen = instructions::remembered(services, None, audience, &shares).await.0;
            let (store, turn, id) = (&services.bus.store, self.turn, self.session.id);
            commits::frozen(store, turn, id, frozen.clone()).await?;
            self.session.frozen = Some(frozen);
        }
        self.rebuild().await;
        Ok(true)
    }

    async fn rebuild(&mut self) {
        let (role, caller) = (self.asker.role, self.part.caller);
        let base = instructions::base(self.turns, &self.session, role, caller).await;
        let summary = self.session.summary.as_deref();
        self.fixed_tokens = tokens::fixed_tokens(&base.system, summary);
        (self.system, self.tools) = (base.system, base.tools);
        (self.tools_tokens, self.fitted) = (base.tools_tokens, base.room);
    }

    /// Tells the owner once if the model's context window is another than was thought.
    async fn tell_window(&self) -> Result<(), TurnError> {
        let Some(window) = self.provider.learned_window() else { return Ok(()) };
        let (name, LearnedWindow { given, is_set, tokens }) = (self.provider.name(), window);
        let words = replies::window_learned(name, tokens, given, is_set);
        let key = format!("window {name} {tokens}");
        Ok(notices::tell_owner(&self.turns.services.bus, key, words).await?)
    }

    /// Makes the prompt shorter that was too long for the model; false if nothing can be left out.
    async fn shrink(&mut self, times: usize) -> Result<Result<bool, ProviderError>, TurnError> {
        let used = self.used();
        // One that has told how much it takes is believed.
        if self.provider.learned_window().is_none() || used <= self.provider.room() {
            self.session.gauge.too_much(used, self.provider.room());
        }
        let shortened = self.shorten(1, 1).await?;
        let whole = Whole::least(compaction::WHOLE_TURNS_MIN + 1 - times);
        let shorter = match self.compact(whole).await? {
            Compaction::Done => true,
            // Steps of this turn are folded only by our own measure: a model that has forgotten a call repeats it.
            Compaction::Nothing => self.shorten(0, 1).await?,
            Compaction::Failed => self.forget_half().await?,
            Compaction::Away(error) => return Ok(Err(error)),
        };
        Ok(Ok(shortened || shorter))
    }

    /// Shortens old results for good, if that saves so many tokens.
    async fn shorten(&mut self, steps_whole: usize, worth: u64) -> Result<bool, TurnError> {
        let session = &self.session;
        let Some(mark) = shorten::mark(&session.turns, steps_whole) else { return Ok(false) };
        // It never goes back: what was shortened stays so.
        let mark: Mark = session.shortened.map_or(mark, |before| before.max(mark));
        let saving = session.gauge.counted(shorten::saving(&session.turns, mark));
        if saving < worth.max(1) {
            return Ok(false);
        }
        commits::shortened(&self.turns.services.bus.store, self.turn, session.id, mark).await?;
        shorten::apply(&mut self.session.turns, mark);
        self.session.gauge.recount();
        self.session.shortened = Some(mark);
        Ok(true)
    }

    /// Folds what was said before into the summary, at once.
    async fn compact(&mut self, whole: Whole) -> Result<Compaction, TurnError> {
        match Job::of(&self.session, whole, None) {
            Some(job) => self.summarize(&job).await,
            None => Ok(Compaction::Nothing),
        }
    }

    /// Folds the older steps of the turn that runs, and all that was said before it; false if there are none. Where
    /// there is no summary to be had, they are left out.
    async fn compact_turn(&mut self) -> Result<Result<bool, ProviderError>, TurnError> {
        let Some(job) = Job::within(&self.session, STEPS_WHOLE) else { return Ok(Ok(false)) };
        match self.summarize(&job).await? {
            Compaction::Done => Ok(Ok(true)),
            Compaction::Nothing => Ok(Ok(false)),
            Compaction::Away(error) => Ok(Err(error)),
            Compaction::Failed => {
                tracing::warn!(turn = self.turn.0, "Left out steps without a summary");
                let former = job.former.clone();
                self.fold(&job, former, Usage::default()).await.map(Ok)
            }
        }
    }

    async fn summarize(&mut self, job: &Job) -> Result<Compaction, TurnError> {
        let (turns, used) = (job.turns.len(), self.used());
        tracing::info!(turn = self.turn.0, turns, used, "Compacting before a model call");
        self.handles.draft.send_modify(|draft| draft.doing = Some(replies::COMPACTING.to_owned()));
        let summary_max = compaction::summary_tokens_max(&self.session, self.provider.room());
        let mut spent = Usage::default();
        let summariser = &*self.turns.models.summariser;
        let summary = Box::pin(compaction::run(summariser, job, summary_max, &mut spent)).await;
        match summary {
            Ok(summary) => match self.fold(job, Some(summary), spent).await? {
                true => Ok(Compaction::Done),
                false => Ok(Compaction::Nothing),
            },
            Err(error) => {
                tracing::warn!(turn = self.turn.0, %error, "The model gave no summary");
                commits::spent(&self.turns.services.bus.store, self.turn, self.summariser(), spent)
                    .await?;
                let waits = self.turns.config.wait_for_model.is_some();
                let is_same = self.summariser() == self.provider.name();
                Ok(match error {
                    ProviderError::Busy { .. } if waits && is_same => Compaction::Away(error),
                    _ => Compaction::Failed,
                })
            }
        }
    }

    /// Forgets the older half of what was said before this turn; false if there is nothing left.
    async fn forget_half(&mut self) -> Result<bool, TurnError> {
        let before = self.session.turns.len() - 1;
        let Some(job) = Job::up_to(&self.session, before.div_ceil(2), None) else {
            return Ok(false);
        };
        tracing::warn!(
            turn = self.turn.0,
            turns = job.turns.len(),
            "Dropped old turns without a summary"
        );
        let former = job.former.clone();
        self.fold(&job, former, Usage::default()).await
    }

    async fn fold(
        &mut self,
        job: &Job,
        summary: Option<String>,
        spent: Usage,
    ) -> Result<bool, TurnError> {
        let audience = audience(self.asker.role, self.session.place);
        // The tails that told of changes go, and the cache is broken anyway.
        let frozen = match audience {
            Audience::Owner => {
                let (role, caller) = (self.asker.role, self.part.caller);
                let shares = instructions::shares(self.turns, &self.session, role, caller);
                let services = &self.turns.services;
                Some(instructions::remembered(services, None, audience, &shares).await.0)
            }
            Audience::Others => None,
        };
        let (provider, last) = (self.summariser(), self.turn);
        let folded = Folded::new(job, summary.clone(), frozen.clone(), (last, provider, spent));
        if !commits::folded_in_turn(&self.turns.services.bus.store, self.turn, folded).await? {
            return Ok(false);
        }
        job.apply(&mut self.session, summary);
        self.session.frozen = frozen;
        self.rebuild().await;
        self.emit(|| Happening::Compacted { turns: job.turns.len() });
        Ok(true)
    }

    fn summariser(&self) -> String {
        self.turns.models.summariser.name().to_owned()
    }
}
