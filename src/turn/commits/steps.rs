//! The commit of a step: it stores the completion and plans its calls before any of them runs.

use chrono::Utc;
use rusqlite::Connection;

use super::guarded::commit_if_running;
use crate::bus::journal::{self, WaitingMessage};
use crate::conversation::ledger::{self, Charge};
use crate::conversation::{model_waits, proposals, sessions, transcript};
use crate::memory::facts;
use crate::memory::recall;
use crate::provider::Completion;
use crate::store::{Store, Sync};
use crate::turn::error::CommitError;
use crate::types::session::{Call, CallId, CallOutcome, Image, Step, TurnId};
use crate::types::source::SourcedText;

/// Stores a completion with its calls before any tool runs. Steered rows enter the turn in this commit,
/// and the calls that were skipped for them are settled. Returns the planned calls.
pub(crate) async fn commit_step(
    store: &Store,
    turn: TurnId,
    step: ModelStep,
) -> Result<Vec<Call>, CommitError> {
    commit_if_running(store, "completion", Sync::Later, turn, move |store| {
        step.write(store, turn)?;
        transcript::plan_calls(store, turn, step.seq, step.completion.calls)
    })
    .await
}

/// A step of the model, with its input.
pub(crate) struct ModelStep {
    /// The number of the step in its turn.
    pub(crate) seq: usize,
    /// The cost of the step.
    pub(crate) charge: Charge,
    pub(crate) input: Option<SourcedText>,
    pub(crate) images: Vec<Image>,
    pub(crate) steered: Vec<WaitingMessage>,
    /// Calls of the step before that did not begin, because of steered messages.
    pub(crate) skipped: Vec<CallId>,
    pub(crate) completion: Completion,
}

impl ModelStep {
    /// Returns the step as it is stored, without its calls.
    pub(crate) fn step(&self) -> Step {
        Step {
            input: self.input.clone(),
            images: self.images.clone(),
            text: self.completion.text.clone(),
            thinking: self.completion.thinking.clone(),
            ..Step::default()
        }
    }

    pub(super) fn write(&self, store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
        journal::move_into_turn(store, &self.steered, turn)?;
        proposals::decide(store, &self.steered)?;
        for call in &self.skipped {
            transcript::end_call(store, *call, &CallOutcome::Skipped, &[])?;
        }
        transcript::put_step(store, turn, self.seq, &self.step())?;
        note_used_facts(store, turn, &self.completion.used_facts)?;
        model_waits::end(store, turn)?;
        ledger::add_charge(store, turn, &self.charge)
    }
}

/// Counts the use of the facts on which an answer is based, of those that belong to its person or group.
fn note_used_facts(store: &Connection, turn: TurnId, used: &[i64]) -> rusqlite::Result<()> {
    if used.is_empty() {
        return Ok(());
    }
    let origin = sessions::of_turn(store, turn)?;
    let keys = recall::conversation_keys(store, &origin.at, origin.chat_kind, &origin.sender.id)?;
    facts::count_marked_use(store, &keys, used, origin.started, Utc::now())
}
