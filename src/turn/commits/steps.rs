//! A step as the model made it: the commit that plans its calls, before any of them runs.

use chrono::Utc;
use rusqlite::Connection;

use super::guarded::guarded;
use crate::bus::journal::{self, WaitingMessage};
use crate::conversation::ledger::{self, Charge};
use crate::conversation::{model_waits, proposals, sessions, transcript};
use crate::memory::facts;
use crate::memory::recall;
use crate::provider::Completion;
use crate::store::{Store, Sync};
use crate::turn::error::CommitError;
use crate::types::session::{Call, CallId, CallOutcome, Image, Step, TurnId};
use crate::types::source::Parts;

/// A completion with calls: all of it stands before any tool runs. Steered rows enter the turn
/// here, and calls that were skipped for them are settled.
pub(crate) async fn completed(
    store: &Store,
    turn: TurnId,
    made: ModelStep,
) -> Result<Vec<Call>, CommitError> {
    guarded(store, "completion", Sync::Later, turn, move |store| {
        made.write(store, turn)?;
        transcript::plan_calls(store, turn, made.seq, made.completion.calls)
    })
    .await
}

/// A step as the model made it, and what led to it.
pub(crate) struct ModelStep {
    /// The number of the step in its turn.
    pub(crate) seq: usize,
    /// Its cost.
    pub(crate) charge: Charge,
    pub(crate) input: Option<Parts>,
    pub(crate) images: Vec<Image>,
    pub(crate) steered: Vec<WaitingMessage>,
    /// Calls of the step before that were not begun because of what was steered.
    pub(crate) skipped: Vec<CallId>,
    pub(crate) completion: Completion,
}

impl ModelStep {
    /// The step as it will be read back, without its calls.
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
        journal::take(store, &self.steered, turn)?;
        proposals::decide(store, &self.steered)?;
        for call in &self.skipped {
            transcript::call_ended(store, *call, &CallOutcome::Skipped, &[])?;
        }
        transcript::put_step(store, turn, self.seq, &self.step())?;
        note_used_facts(store, turn, &self.completion.used_facts)?;
        model_waits::end(store, turn)?;
        ledger::enter(store, turn, &self.charge)
    }
}

/// Counts the facts that an answer rests on, of those that belong to its person or group.
fn note_used_facts(store: &Connection, turn: TurnId, used: &[i64]) -> rusqlite::Result<()> {
    if used.is_empty() {
        return Ok(());
    }
    let of = sessions::of_turn(store, turn)?;
    let keys = recall::keys_of_talks(store, &of.at, of.chat_kind, &of.sender.id)?;
    facts::note_marked(store, &keys, used, of.started, Utc::now())
}
