//! The commits of compaction. The summary, the first visible turn, the frozen memory and the cost change
//! together, and only if the session has not changed since the compaction was requested.

use std::ops::Range;

use rusqlite::Connection;

use crate::bus::journal::{InboundOutcome, WaitingMessage};
use crate::conversation::ledger::{self, Charge};
use crate::conversation::transcript::{self, Summaries, TranscriptStart};
use crate::replies;
use crate::store::{Store, StoreError, Sync};
use crate::turn::commits::guarded::commit_if_running;
use crate::turn::commits::settle_command;
use crate::turn::compaction::CompactionJob;
use crate::turn::error::CommitError;
use crate::types::session::{FrozenContext, SessionId, StepMark, TurnId};

/// Stores up to which step old results are shortened.
pub(crate) async fn store_shortening(
    store: &Store,
    turn: TurnId,
    session: SessionId,
    mark: StepMark,
) -> Result<(), CommitError> {
    commit_if_running(store, "shortened", Sync::Later, turn, move |store| {
        transcript::set_shortened(store, session, mark)
    })
    .await
}

/// Stores a memory that was frozen anew within a turn, because the context window is smaller than expected.
pub(crate) async fn store_frozen_memory(
    store: &Store,
    turn: TurnId,
    session: SessionId,
    frozen: FrozenContext,
) -> Result<(), CommitError> {
    commit_if_running(store, "frozen", Sync::Later, turn, move |store| {
        transcript::set_frozen(store, session, &frozen)
    })
    .await
}

/// The changes of a compaction: the summaries, the compacted range, the new frozen memory, and the cost.
pub(crate) struct CompactionCommit {
    session: SessionId,
    range: Range<TranscriptStart>,
    summaries: Summaries,
    frozen: Option<FrozenContext>,
    spent: SpentOn,
}

/// The cost of summaries, and the turn that is charged.
pub(crate) type SpentOn = (TurnId, Charge);

impl CompactionCommit {
    pub(crate) fn new(
        job: &CompactionJob,
        summaries: Summaries,
        frozen: Option<FrozenContext>,
        spent: SpentOn,
    ) -> Self {
        Self { session: job.session, range: job.from..job.to, summaries, frozen, spent }
    }

    /// Writes the changes. Returns false if the session is closed, or was compacted meanwhile.
    fn write(&self, store: &Connection) -> rusqlite::Result<bool> {
        enter_spent(store, &self.spent)?;
        let Self { session, range, summaries, frozen, .. } = self;
        transcript::compact(store, *session, range, summaries, frozen.as_ref())
    }
}

fn enter_spent(store: &Connection, spent: &SpentOn) -> rusqlite::Result<()> {
    let (turn, charge) = spent;
    ledger::add_nonzero_charge(store, *turn, charge)
}

/// Commits a compaction by the turn that needs it. Returns false if the session has changed.
pub(crate) async fn commit_turn_compaction(
    store: &Store,
    turn: TurnId,
    compacted: CompactionCommit,
) -> Result<bool, CommitError> {
    commit_if_running(store, "compaction", Sync::Later, turn, move |store| compacted.write(store))
        .await
}

/// Commits a compaction in the background, with the reply to its command, if there is one. Returns false if
/// the session has changed, or the command was withdrawn.
pub(crate) async fn commit_compaction(
    store: &Store,
    compacted: CompactionCommit,
    control: Option<WaitingMessage>,
    reply: String,
) -> Result<bool, StoreError> {
    let compact = move |store: &Connection| {
        let Some(control) = &control else { return compacted.write(store) };
        let mut is_written = false;
        let is_settled = settle_command(store, control, InboundOutcome::Handled, || {
            is_written = compacted.write(store)?;
            Ok(if is_written { reply } else { replies::COMPACTED_MEANWHILE.to_owned() })
        })?;
        if !is_settled {
            enter_spent(store, &compacted.spent)?;
        }
        Ok(is_written)
    };
    store.write("compaction", Sync::Now, compact).await
}

/// Commits a failed compaction in the background: the cost, and the reply to its command.
pub(crate) async fn commit_failed_compaction(
    store: &Store,
    spent: SpentOn,
    control: Option<WaitingMessage>,
    reply: String,
) -> Result<bool, StoreError> {
    let settle = move |store: &Connection| {
        enter_spent(store, &spent)?;
        let Some(control) = &control else { return Ok(false) };
        settle_command(store, control, InboundOutcome::Handled, || Ok(reply))?;
        Ok(false)
    };
    store.write("no compaction", Sync::Now, settle).await
}

/// Stores the cost of calls that are not steps of a turn.
pub(crate) async fn charge_turn(
    store: &Store,
    turn: TurnId,
    charge: Charge,
) -> Result<(), StoreError> {
    let spent = (turn, charge);
    store.write("spent", Sync::Later, move |store| enter_spent(store, &spent)).await
}
