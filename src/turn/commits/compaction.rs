//! The commits of compaction: the summary, where the session begins, the memory frozen anew and what it
//! cost change together, and only if the session is still as it was when that was asked for.

use std::ops::Range;

use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome, WaitingMessage};
use crate::bus::outbox;
use crate::conversation::ledger::{self, Charge};
use crate::conversation::transcript::{self, Summaries, TranscriptStart};
use crate::replies;
use crate::store::{Store, StoreError, Sync};
use crate::turn::commits::guarded::guarded;
use crate::turn::compaction::CompactionJob;
use crate::turn::error::CommitError;
use crate::types::session::{FrozenContext, SessionId, StepMark, TurnId};

/// Old results are shortened from now on.
pub(crate) async fn shortened(
    store: &Store,
    turn: TurnId,
    session: SessionId,
    mark: StepMark,
) -> Result<(), CommitError> {
    guarded(store, "shortened", Sync::Later, turn, move |store| {
        transcript::set_shortened(store, session, mark)
    })
    .await
}

/// The memory is frozen anew within a turn, because the model takes less than was thought.
pub(crate) async fn frozen(
    store: &Store,
    turn: TurnId,
    session: SessionId,
    frozen: FrozenContext,
) -> Result<(), CommitError> {
    guarded(store, "frozen", Sync::Later, turn, move |store| {
        transcript::set_frozen(store, session, &frozen)
    })
    .await
}

/// The changes of a compaction: the summary, the session's first visible turn, the memory that is frozen anew, and the
/// cost.
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

    /// False if the session is closed, or was compacted meanwhile.
    fn write(&self, store: &Connection) -> rusqlite::Result<bool> {
        enter_spent(store, &self.spent)?;
        let Self { session, range, summaries, frozen, .. } = self;
        transcript::compact(store, *session, range, summaries, frozen.as_ref())
    }
}

fn enter_spent(store: &Connection, spent: &SpentOn) -> rusqlite::Result<()> {
    let (turn, charge) = spent;
    ledger::enter_spent(store, *turn, charge)
}

/// A compaction by the turn that needs it.
pub(crate) async fn compacted_in_turn(
    store: &Store,
    turn: TurnId,
    compacted: CompactionCommit,
) -> Result<bool, CommitError> {
    guarded(store, "compaction", Sync::Later, turn, move |store| compacted.write(store)).await
}

/// A compaction beside the conversation, and the answer to who commanded it. Nothing changes if the
/// command was withdrawn.
pub(crate) async fn compacted(
    store: &Store,
    compacted: CompactionCommit,
    control: Option<WaitingMessage>,
    words: String,
) -> Result<bool, StoreError> {
    let compact = move |store: &Connection| {
        let Some(WaitingMessage { id, inbound, .. }) = &control else {
            return compacted.write(store);
        };
        if !journal::settle(store, *id, InboundOutcome::Handled)? {
            enter_spent(store, &compacted.spent)?;
            return Ok(false);
        }
        let done = compacted.write(store)?;
        let words = if done { &words } else { replies::COMPACTED_MEANWHILE };
        outbox::put_urgent(store, &inbound.from, inbound.id.as_ref(), words)?;
        Ok(done)
    };
    store.write("compaction", Sync::Now, compact).await
}

/// A compaction beside the conversation that came to nothing.
pub(crate) async fn not_compacted(
    store: &Store,
    spent: SpentOn,
    control: Option<WaitingMessage>,
    words: String,
) -> Result<bool, StoreError> {
    let settle = move |store: &Connection| {
        enter_spent(store, &spent)?;
        let Some(WaitingMessage { id, inbound, .. }) = &control else { return Ok(false) };
        if journal::settle(store, *id, InboundOutcome::Handled)? {
            outbox::put_urgent(store, &inbound.from, inbound.id.as_ref(), &words)?;
        }
        Ok(false)
    };
    store.write("no compaction", Sync::Now, settle).await
}

/// Tokens that were used beside the steps of a turn.
pub(crate) async fn spent(store: &Store, turn: TurnId, charge: Charge) -> Result<(), StoreError> {
    let spent = (turn, charge);
    store.write("spent", Sync::Later, move |store| enter_spent(store, &spent)).await
}
