//! The commits that close what cannot be read, or fails each time, alone: its person is told, the row is
//! kept for whoever looks into it, and everything else goes on.

use rusqlite::Connection;

use crate::bus::journal::{self, Fate, RowId, UnreadableRow};
use crate::bus::outbox;
use crate::conversation::errands::Errand;
use crate::conversation::transcript::{self, UnreadableTurn};
use crate::replies;
use crate::store::{Store, StoreError, Sync};
use crate::turn::commits::{CommitError, errands, guarded};
use crate::types::message::Address;
use crate::types::session::Ending;

/// Closes messages and commands that cannot be read.
pub(crate) async fn unreadable_rows(
    store: &Store,
    rows: Vec<UnreadableRow>,
) -> Result<(), StoreError> {
    let close = move |store: &Connection| {
        rows.iter().try_for_each(|UnreadableRow { id, why }| {
            tracing::error!(row = id.0, why, "Cannot read a message, set it aside");
            close(store, *id, why, replies::MESSAGE_UNREADABLE)
        })
    };
    store.write("unreadable", Sync::Now, close).await
}

/// Closes rows whose work fails each time.
pub(crate) async fn failed(
    store: &Store,
    rows: Vec<RowId>,
    why: String,
    words: &'static str,
) -> Result<(), StoreError> {
    let close = move |store: &Connection| {
        let mut words = Some(words);
        rows.iter().try_for_each(|row| match words.take() {
            Some(words) => close(store, *row, &why, words),
            // Rows that belong together are told of once.
            None => journal::close_unreadable(store, *row, &why).map(drop),
        })
    };
    store.write("failed", Sync::Now, close).await
}

fn close(store: &Connection, row: RowId, why: &str, words: &str) -> rusqlite::Result<()> {
    let Some(at) = journal::close_unreadable(store, row, why)? else { return Ok(()) };
    match Errand::of(&at) {
        Some(errand) => errands::broke(store, errand, &at),
        None => say(store, &at, words),
    }
}

/// Ends a turn that cannot be read.
pub(crate) async fn unreadable_turn(
    store: &Store,
    unreadable: UnreadableTurn,
) -> Result<(), CommitError> {
    let turn = unreadable.turn;
    tracing::error!(turn = turn.0, why = unreadable.why, "Cannot read a turn, ended it");
    guarded(store, "unreadable", Sync::Now, turn, move |store| {
        transcript::keep_turn(store, &unreadable)?;
        if let Some(errand) = Errand::of(&unreadable.address) {
            return errands::given_up(store, turn, (errand, &unreadable.address));
        }
        transcript::end_turn(store, turn, Ending::Failed)?;
        journal::settle_turn(store, turn, Fate::Refused)?;
        errands::interrupted(store, turn)?;
        let reply_to = unreadable.reply_to.as_ref();
        outbox::put(store, &unreadable.address, reply_to, replies::TURN_UNREADABLE).map(drop)
    })
    .await
}

fn say(store: &Connection, at: &Address, words: &str) -> rusqlite::Result<()> {
    outbox::put_urgent(store, at, None, words).map(drop)
}
