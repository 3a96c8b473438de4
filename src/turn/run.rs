//! The steps of a turn: from one person's messages, which `begin.rs` takes up, to an answer. Every change is committed
//! before it is acted on, so that a turn can be cut off anywhere and taken up again.

mod active;
pub mod attachments;
mod asking;
mod away;
mod begin;
mod first_step;
mod bounds;
mod brief;
pub mod late;
mod part;
mod permitting;
mod refusing;
mod context_window;
mod settling;
pub mod unseen_tools;
mod start_state;

use active::ActiveTurn;
pub(crate) use active::TurnHandles;
pub(crate) use begin::{TurnStart, run};
use bounds::ReachedLimit;
pub(crate) use permitting::{CheckedCall, check_call};
use settling::SettledCalls;
pub(crate) use settling::tool_context;

use std::mem;

use rusqlite::Connection;
use tokio::time::Instant;

use crate::bus::journal::{self, InboundOutcome, WaitingMessage};
use crate::conversation::transcript;
use crate::people::Role;
use crate::provider::{Completion, ProviderError, StopReason};
use crate::replies;
use crate::store::Sync;
use crate::tools::message;
use crate::turn::commits::{self, ModelStep};
use crate::turn::end::is_no_reply;
use crate::turn::error::TurnError;
use crate::turn::invoked::invoked;
use crate::turn::loops::{self, LoopVerdict};
use crate::turn::prompt::{self, PromptTail, files};
use crate::turn::quoted;
use crate::types::event::EventKind;
use crate::types::message::{Hint, Reaction};
use crate::types::session::{CallOutcome, Image, Session, Step, TurnOutcome};
use crate::types::source::{Parts, Source};

impl ActiveTurn<'_> {
    async fn work(mut self) -> Result<Option<Session>, TurnError> {
        let begun = Instant::now();
        self.plan_approved().await?;
        if self.settle_calls().await? == SettledCalls::Suspended {
            return self.suspend(begun).await;
        }
        loop {
            if let Some(said) = self.finished() {
                return self.finish(said).await;
            }
            if let Some(used_up) = self.used_up().await? {
                return self.last_words(used_up, begun).await;
            }
            let note = match loops::verdict(&self.current().steps) {
                LoopVerdict::Fine => self.reminder(),
                LoopVerdict::Warn => Some(prompt::IN_CIRCLES.to_owned()),
                LoopVerdict::Stop => return self.give_up(replies::IN_CIRCLES.to_owned()).await,
            };
            let step = self.open_step(note).await?;
            self.emit(|| EventKind::StepStart { step });
            match self.ask(!self.has_lost_call()).await? {
                Ok(completion) if completion.calls.is_empty() => match self.reminds(&completion) {
                    Some(reminder) => {
                        self.emit(|| EventKind::NoToolCall { reminder });
                        self.plan(step, completion).await?;
                    }
                    None => {
                        let completion = self.without_call(completion);
                        return self.answer(step, completion).await;
                    }
                },
                Ok(completion) => {
                    self.plan(step, completion).await?;
                    if self.settle_calls().await? == SettledCalls::Suspended {
                        return self.suspend(begun).await;
                    }
                }
                Err(error) => return self.fail(&error, begun).await,
            }
        }
    }

    /// The turn waits without a task. What it has worked counts when it goes on: its time is bounded in all.
    async fn suspend(self, begun: Instant) -> Result<Option<Session>, TurnError> {
        let (turn, worked) = (self.turn, begun.elapsed());
        let note = move |store: &Connection| transcript::add_worked(store, turn, worked);
        self.turns.services.bus.store.write("turn suspended", Sync::Later, note).await?;
        Ok(None)
    }

    /// A limit is reached: the model says what it has and what is left. What was said meanwhile
    /// stays for the next turn.
    async fn last_words(
        mut self,
        used_up: ReachedLimit,
        begun: Instant,
    ) -> Result<Option<Session>, TurnError> {
        let ReachedLimit { note, words } = used_up;
        self.pending.clear();
        self.invoked.clear();
        let step = self.push_step(Some(Parts::of(Source::Program, note)), Vec::new());
        self.emit(|| EventKind::StepStart { step });
        match self.ask(false).await? {
            Ok(mut completion) if !completion.text.trim().is_empty() => {
                completion.calls.clear();
                completion.note = Some(match completion.note.take() {
                    Some(note) => format!("{words}\n\n{note}"),
                    None => words,
                });
                self.answer(step, completion).await
            }
            Err(error @ ProviderError::Busy { .. }) => self.fail(&error, begun).await,
            Ok(wordless) => {
                let charge = self.charge(&wordless);
                commits::spent(&self.turns.services.bus.store, self.turn, charge).await?;
                self.give_up(words).await
            }
            Err(_) => self.give_up(words).await,
        }
    }

    /// The step that the next completion fills: the first one stands there since the turn began,
    /// another one begins with what the program notes, and what was steered meanwhile.
    async fn open_step(&mut self, note: Option<String>) -> Result<usize, TurnError> {
        self.take_steering().await?;
        let invoked = mem::take(&mut self.invoked);
        let shown =
            quoted::with_sources(&self.turns.services, &self.pending, self.asker.role).await?;
        let steered = (!self.pending.is_empty()).then(|| {
            let (chat_kind, role) = (self.session.chat_kind, self.asker.role);
            let now = self.turns.services.now();
            let told = self.session.frozen.as_ref().and_then(|frozen| frozen.told_time);
            prompt::tail(&PromptTail {
                now,
                is_time_due: prompt::is_time_due(told, now.to_utc()),
                role,
                chat_kind,
                rows: &shown,
                invoked: &invoked,
                background: &[],
                changes: vec![],
            })
        });
        let images = files::images(&self.pending);
        let note = note.map(|note| Parts::of(Source::Program, note));
        let input = match (note, steered) {
            (Some(mut note), Some(steered)) => {
                note.push_program("\n\n");
                note.append(&steered);
                Some(note)
            }
            (note, steered) => note.or(steered),
        };
        Ok(self.push_step(input, images))
    }

    /// Adds a step. Calls that are still planned in the step before will not begin any more.
    fn push_step(&mut self, input: Option<Parts>, images: Vec<Image>) -> usize {
        let steps = &mut self.current().steps;
        let before = steps.last_mut().into_iter().flat_map(|step| &mut step.calls);
        for call in before.filter(|call| call.outcome == CallOutcome::Planned) {
            call.outcome = CallOutcome::Skipped;
        }
        let unmade = |step: &Step| step.text.is_empty() && step.calls.is_empty();
        match steps.len() {
            // What the turn began with stands in its first step; what was said while the model was away joins it.
            1 if steps.last().is_some_and(unmade) => steps[0].join(input, images),
            // Tried before, without an answer: it shows what has come since, too.
            _ if steps.last().is_some_and(unmade) => {
                steps.pop();
                steps.push(Step { input, images, ..Step::default() });
            }
            _ => steps.push(Step { input, images, ..Step::default() }),
        }
        steps.len() - 1
    }

    async fn take_steering(&mut self) -> Result<(), TurnError> {
        // The first step shows what the turn began with; what came since is for the second. While the model was
        // away, the first one has not been asked for.
        if self.steps_made() == 0 && self.wait.is_none() {
            return Ok(());
        }
        while let Ok(rows) = self.handles.steer.try_recv() {
            // They may have been edited or taken back since.
            let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
            let rows = self
                .turns
                .services
                .bus
                .store
                .read(move |store| journal::again(store, &ids))
                .await?;
            // One who asked for a skill in vain has been told, and said nothing that concerns the turn.
            let Some(invoked) = invoked(&self.turns.services, &rows).await? else { continue };
            self.invoked.extend(invoked);
            self.emit(|| EventKind::Steered { messages: rows.len() });
            let seen = rows.iter().filter_map(|row| row.inbound.id.clone());
            for message in seen {
                self.handles.signs.try_send(Hint::React { message, with: Reaction::Steered }).ok();
            }
            if !rows.is_empty() {
                self.begin_draft_anew().await?;
            }
            self.pending.extend(rows);
        }
        Ok(())
    }

    /// Returns the step as it is stored, besides its calls.
    fn made(&mut self, step: usize, completion: Completion) -> ModelStep {
        let steered: Vec<WaitingMessage> = self.pending.drain(..).collect();
        let turn = self.current();
        let before = step.checked_sub(1).map(|before| turn.steps[before].calls.as_slice());
        let skipped = before.unwrap_or_default().iter();
        let skipped =
            skipped.filter(|call| call.outcome == CallOutcome::Skipped).map(|call| call.id);
        let skipped = skipped.collect();
        let Step { input, images, .. } = turn.steps[step].clone();
        self.spent.add(completion.usage);
        let charge = self.charge(&completion);
        let usage = completion.usage;
        self.emit(|| EventKind::StepEnd {
            step,
            input: usage.input,
            cached: usage.cached,
            output: usage.output,
            cost: charge.price.map(|price| price.cost(usage).0),
        });
        ModelStep { seq: step, charge, input, images, steered, skipped, completion }
    }

    async fn plan(&mut self, step: usize, completion: Completion) -> Result<(), TurnError> {
        let made = self.made(step, completion);
        let mut filled = made.step();
        filled.calls = commits::completed(&self.turns.services.bus.store, self.turn, made).await?;
        if self.wait.take().is_some() {
            tracing::info!(turn = self.turn.0, "The model is back");
            // The loop lets the other turns that wait for it go on.
            self.turns.services.bus.inbox.up();
        }
        self.current().steps[step] = filled;
        Ok(())
    }

    async fn answer(
        mut self,
        step: usize,
        completion: Completion,
    ) -> Result<Option<Session>, TurnError> {
        let (ending, words) = self.words(&completion);
        let (words, files) = self.attach(words).await?;
        let made = self.made(step, completion);
        self.current().steps[step] = made.step();
        let mut end = self.end_with(String::new());
        (end.ending, end.outcome, end.words, end.files) =
            (ending, InboundOutcome::Answered, words, files);
        self.end(end, Some(made)).await
    }

    /// Returns the message to the person for a completion without calls.
    fn words(&self, completion: &Completion) -> (TurnOutcome, Option<String>) {
        let text = completion.text.trim();
        if is_no_reply(text) && self.owes_words() {
            return (TurnOutcome::Answered, Some(replies::NOTHING_TO_SAY.to_owned()));
        }
        if is_no_reply(text) {
            return (TurnOutcome::Silent, None);
        }
        if text.is_empty() {
            let words = match completion.stop {
                Some(StopReason::Refused) => replies::MODEL_REFUSED,
                Some(StopReason::MaxTokens) if self.asker.role == Role::Owner => {
                    replies::LIMIT_USED_UP_OWNER
                }
                Some(StopReason::MaxTokens) => replies::LIMIT_USED_UP,
                _ if self.said_here().next().is_some() => return (TurnOutcome::Answered, None),
                _ if self.part.caller.may_say_nothing() => return (TurnOutcome::Silent, None),
                _ => replies::NO_WORDS,
            };
            return (TurnOutcome::Failed, Some(words.to_owned()));
        }
        if self.said_here().any(|said| said.trim() == text) {
            return (TurnOutcome::Answered, None);
        }
        let cut = (completion.stop == Some(StopReason::MaxTokens)).then_some(replies::CUT_SHORT);
        let parts = [Some(text), cut, completion.note.as_deref()];
        let said = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        (TurnOutcome::Answered, Some(self.with_thoughts(&said)))
    }

    /// Returns the message, after the model's thinking if people want to see that.
    fn with_thoughts(&self, said: &str) -> String {
        match self.session.settings.show_thinking && !self.thought.trim().is_empty() {
            true => format!("{}\n\n{said}", replies::thought(&self.thought)),
            false => said.to_owned(),
        }
    }

    /// Returns the texts that the message tool has sent here in this turn.
    fn said_here(&self) -> impl Iterator<Item = String> {
        let calls = self.steps().iter().flat_map(|step| &step.calls);
        calls.filter_map(|call| message::said_here(call, &self.part.people_at))
    }

    async fn give_up(self, words: String) -> Result<Option<Session>, TurnError> {
        let mut end = self.end_with(words);
        let quiet = self.quiet_at_end().await;
        end.over_draft = quiet.is_some();
        commits::answer(&self.turns.services.bus.store, self.turn, None, end).await?;
        self.emit(|| EventKind::TurnEnd { silent: false });
        self.log_end(TurnOutcome::Failed);
        Ok(None)
    }
}
