//! The steps of a turn, from one person's messages, which `prepare.rs` reads, to an answer, which `ending.rs` commits.
//! Every step is committed before its consequences, so that a turn can be interrupted anywhere and resumed.

mod active;
pub mod attachments;
mod asking;
mod away;
mod prepare;
mod first_step;
mod bounds;
mod short_prompt;
mod charging;
mod comparing;
mod ending;
mod fetching;
pub mod declined;
mod limits;
mod permitting;
mod refusing;
mod resume;
mod context_window;
mod settling;
pub mod unseen_tools;

use active::ActiveTurn;
pub(crate) use active::TurnHandles;
pub(crate) use permitting::{CheckedCall, check_call};
pub(crate) use prepare::{TurnStart, run};
use settling::SettledCalls;
pub(crate) use settling::tool_context;

use std::mem;

use rusqlite::Connection;
use tokio::time::Instant;

use crate::bus::journal::{self, WaitingMessage};
use crate::conversation::transcript;
use crate::provider::Completion;
use crate::replies;
use crate::store::Sync;
use crate::turn::commits::{self, ModelStep};
use crate::turn::error::TurnError;
use crate::turn::invoked::invoked;
use crate::turn::loops::{self, LoopVerdict};
use crate::turn::prompt::{self, PromptTail, files};
use crate::turn::quoted;
use crate::types::event::EventKind;
use crate::types::message::{Hint, Reaction};
use crate::types::session::{CallOutcome, Image, Session, Step};
use crate::types::source::{Source, SourcedText};

impl ActiveTurn<'_> {
    /// Runs the steps of the turn until it ends or is suspended.
    async fn work(mut self) -> Result<Option<Session>, TurnError> {
        let begun = Instant::now();
        self.plan_approved().await?;
        if self.settle_calls().await? == SettledCalls::Suspended {
            return self.suspend(begun).await;
        }
        loop {
            if let Some(text) = self.finished() {
                return self.finish(text).await;
            }
            if let Some(limit) = self.find_reached_limit().await? {
                return Box::pin(self.finish_at_limit(limit, begun)).await;
            }
            let note = match loops::verdict(&self.current().steps) {
                LoopVerdict::Fine => self.reminder(),
                LoopVerdict::Warn => Some(prompt::REPEATED_CALL.to_owned()),
                LoopVerdict::Stop => return self.give_up(replies::REPEATED_CALLS.to_owned()).await,
            };
            let step = self.open_step(note).await?;
            self.emit(|| EventKind::StepStart { step });
            match self.ask(!self.has_lost_call()).await? {
                Ok(completion) if completion.calls.is_empty() => match self.reminds(&completion) {
                    Some(reminder) => {
                        self.emit(|| EventKind::NoToolCall { reminder });
                        self.commit_planned_step(step, completion).await?;
                    }
                    None => {
                        let completion = self.without_call(completion);
                        return self.answer(step, completion).await;
                    }
                },
                Ok(completion) => {
                    self.commit_planned_step(step, completion).await?;
                    if self.settle_calls().await? == SettledCalls::Suspended {
                        return self.suspend(begun).await;
                    }
                }
                Err(error) => return self.fail(&error, begun).await,
            }
        }
    }

    /// Stores the time that the turn has worked, because its total time is limited, and ends its task.
    async fn suspend(self, begun: Instant) -> Result<Option<Session>, TurnError> {
        let (turn, worked) = (self.turn, begun.elapsed());
        let store_worked =
            move |store: &Connection| transcript::add_working_time(store, turn, worked);
        self.turns.services.bus.store.write("turn suspended", Sync::Later, store_worked).await?;
        Ok(None)
    }

    /// Opens the step for the next completion, and returns its index. The first step exists since the turn began.
    /// A later one has a note of the program, and the messages that were steered meanwhile.
    async fn open_step(&mut self, note: Option<String>) -> Result<usize, TurnError> {
        self.take_steering().await?;
        let invoked = mem::take(&mut self.invoked);
        let shown =
            quoted::with_sources(&self.turns.services, &self.pending, self.requester.role).await?;
        let steered = (!self.pending.is_empty()).then(|| {
            let (chat_kind, role) = (self.session.chat_kind, self.requester.role);
            let now = self.turns.services.now();
            let told_time = self.session.frozen.as_ref().and_then(|frozen| frozen.told_time);
            prompt::tail(&PromptTail {
                now,
                is_time_due: prompt::is_time_due(told_time, now.to_utc()),
                role,
                chat_kind,
                rows: &shown,
                invoked: &invoked,
                background: &[],
                changes: vec![],
            })
        });
        let images = files::images(&self.pending);
        let note = note.map(|note| SourcedText::of(Source::Program, note));
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

    /// Adds a step, and returns its index. Calls that are still planned in the step before are skipped.
    fn push_step(&mut self, input: Option<SourcedText>, images: Vec<Image>) -> usize {
        let steps = &mut self.current().steps;
        let before = steps.last_mut().into_iter().flat_map(|step| &mut step.calls);
        for call in before.filter(|call| call.outcome == CallOutcome::Planned) {
            call.outcome = CallOutcome::Skipped;
        }
        let has_no_output = |step: &Step| step.text.is_empty() && step.calls.is_empty();
        match steps.len() {
            // The first step has the first messages. Messages that came while the model was away join it.
            1 if steps.last().is_some_and(has_no_output) => steps[0].join(input, images),
            // A step without an answer is replaced by one that also has the newer messages.
            _ if steps.last().is_some_and(has_no_output) => {
                steps.pop();
                steps.push(Step { input, images, ..Step::default() });
            }
            _ => steps.push(Step { input, images, ..Step::default() }),
        }
        steps.len() - 1
    }

    /// Takes the messages that the loop has handed to the turn.
    async fn take_steering(&mut self) -> Result<(), TurnError> {
        // The first step has the first messages, and newer ones are for the second step. If the model was away, the
        // first step has no completion yet, so that newer messages can join it.
        if self.steps_made() == 0 && self.wait.is_none() {
            return Ok(());
        }
        while let Ok(rows) = self.handles.steer.try_recv() {
            // The messages may have been edited or deleted since.
            let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
            let rows = self
                .turns
                .services
                .bus
                .store
                .read(move |store| journal::reread(store, &ids))
                .await?;
            // A message that invoked an unusable skill is already answered, and does not concern the turn.
            let Some(invoked) = invoked(&self.turns.services, &rows).await? else { continue };
            self.invoked.extend(invoked);
            self.emit(|| EventKind::Steered { messages: rows.len() });
            let seen = rows.iter().filter_map(|row| row.inbound.id.clone());
            for message in seen {
                self.handles
                    .reactions
                    .try_send(Hint::React { message, with: Reaction::Steered })
                    .ok();
            }
            if !rows.is_empty() {
                self.begin_draft_anew().await?;
            }
            self.pending.extend(rows);
        }
        Ok(())
    }

    /// Returns the step of a completion as it is stored, and reports its usage as an event.
    fn model_step(&mut self, step: usize, completion: Completion) -> ModelStep {
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

    /// Commits the step of a completion with its planned calls.
    async fn commit_planned_step(
        &mut self,
        step: usize,
        completion: Completion,
    ) -> Result<(), TurnError> {
        let model_step = self.model_step(step, completion);
        let mut stored_step = model_step.step();
        stored_step.calls =
            commits::commit_step(&self.turns.services.bus.store, self.turn, model_step).await?;
        if self.wait.take().is_some() {
            tracing::info!(turn = self.turn.0, "The model is back");
            // The loop resumes the other turns that wait for the model.
            self.turns.services.bus.inbox.notify();
        }
        self.current().steps[step] = stored_step;
        self.has_planned = true;
        Ok(())
    }
}
