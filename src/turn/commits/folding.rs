//! The commits of compaction: the summary, where the session begins, the memory frozen anew and what it
//! cost change together, and only if the session is still as it was when that was asked for.

use std::ops::Range;

use rusqlite::Connection;

use crate::bus::journal::{self, Fate, Waiting};
use crate::bus::outbox;
use crate::conversation::transcript::{self, Begins};
use crate::provider::Usage;
use crate::replies;
use crate::store::{Store, StoreError, Sync};
use crate::turn::commits::guarded::guarded;
use crate::turn::compaction::Job;
use crate::turn::error::CommitError;
use crate::types::session::{Frozen, Mark, SessionId, TurnId};

/// Old results are shortened from now on.
pub(crate) async fn shortened(
    store: &Store,
    turn: TurnId,
    session: SessionId,
    mark: Mark,
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
    frozen: Frozen,
) -> Result<(), CommitError> {
    guarded(store, "frozen", Sync::Later, turn, move |store| {
        transcript::set_frozen(store, session, &frozen)
    })
    .await
}

/// What a compaction changes: the summary, where the session begins, the memory that is frozen
/// anew, and what it cost.
pub(crate) struct Folded {
    session: SessionId,
    range: Range<Begins>,
    summary: Option<String>,
    frozen: Option<Frozen>,
    spent: Spent,
}

/// Tokens of summaries: on account of which turn, by whom, how many.
pub(crate) type Spent = (TurnId, String, Usage);

impl Folded {
    pub(crate) fn new(
        job: &Job,
        summary: Option<String>,
        frozen: Option<Frozen>,
        spent: Spent,
    ) -> Self {
        Self { session: job.session, range: job.from..job.to, summary, frozen, spent }
    }

    /// False if the session is closed, or was folded meanwhile.
    fn write(&self, store: &Connection) -> rusqlite::Result<bool> {
        enter_spent(store, &self.spent)?;
        let Self { session, range, summary, frozen, .. } = self;
        transcript::fold(store, *session, range, summary.as_deref(), frozen.as_ref())
    }
}

fn enter_spent(store: &Connection, (turn, provider, usage): &Spent) -> rusqlite::Result<()> {
    match *usage == Usage::default() {
        true => Ok(()),
        false => transcript::enter_ledger(store, *turn, provider, *usage),
    }
}

/// A compaction by the turn that needs it.
pub(crate) async fn folded_in_turn(
    store: &Store,
    turn: TurnId,
    folded: Folded,
) -> Result<bool, CommitError> {
    guarded(store, "compaction", Sync::Later, turn, move |store| folded.write(store)).await
}

/// A compaction beside the conversation, and the answer to who commanded it. Nothing changes if the
/// command was withdrawn.
pub(crate) async fn folded(
    store: &Store,
    folded: Folded,
    control: Option<Waiting>,
    words: String,
) -> Result<bool, StoreError> {
    let fold = move |store: &Connection| {
        let Some(Waiting { id, inbound, .. }) = &control else { return folded.write(store) };
        if !journal::settle(store, *id, Fate::Obeyed)? {
            enter_spent(store, &folded.spent)?;
            return Ok(false);
        }
        let done = folded.write(store)?;
        let words = if done { &words } else { replies::COMPACTED_MEANWHILE };
        outbox::put_urgent(store, &inbound.from, inbound.id.as_ref(), words)?;
        Ok(done)
    };
    store.write("compaction", Sync::Now, fold).await
}

/// A compaction beside the conversation that came to nothing.
pub(crate) async fn not_folded(
    store: &Store,
    spent: Spent,
    control: Option<Waiting>,
    words: String,
) -> Result<bool, StoreError> {
    let settle = move |store: &Connection| {
        enter_spent(store, &spent)?;
        let Some(Waiting { id, inbound, .. }) = &control else { return Ok(false) };
        if journal::settle(store, *id, Fate::Obeyed)? {
            outbox::put_urgent(store, &inbound.from, inbound.id.as_ref(), &words)?;
        }
        Ok(false)
    };
    store.write("no compaction", Sync::Now, settle).await
}

/// Tokens that were used beside the steps of a turn.
pub(crate) async fn spent(
    store: &Store,
    turn: TurnId,
    provider: String,
    usage: Usage,
) -> Result<(), StoreError> {
    let spent = (turn, provider, usage);
    store.write("spent", Sync::Later, move |store| enter_spent(store, &spent)).await
}
