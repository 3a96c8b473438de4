//! The commits that close what cannot be read, or fails each time, alone: its person is told, the row is
//! kept for whoever looks into it, and everything else goes on.

use rusqlite::Connection;

use crate::bus::journal::{self, Fate, RowId, UnreadableRow};
use crate::bus::outbox;
use crate::conversation::asks::{self, Ask};
use crate::conversation::errands::Errand;
use crate::conversation::transcript::{self, UnreadableTurn, end_turn_alone};
use crate::replies;
use crate::store::{Store, StoreError, Sync, apart};
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

/// Closes what a turn has asked and what cannot be settled, with the turn, whatever else of it fails. Gives the
/// turn's address.
pub(crate) async fn failed_ask(
    store: &Store,
    ask: Ask,
    why: String,
) -> Result<Option<Address>, StoreError> {
    let close = move |store: &Connection| {
        tracing::error!(ask = ask.id.0, why, "Closed what a turn has asked, which fails each time");
        if !asks::set_aside(store, &ask, &why)? {
            return Ok(None);
        }
        let closed = apart(store, || {
            outbox::close_question(store, ask.delivery, replies::NO_LONGER_NEEDED)
        })?;
        if let Err(why) = closed {
            tracing::warn!(ask = ask.id.0, why, "Left the buttons of a closed question");
        }
        end_asking_turn(store, &ask)
    };
    store.write("ask failed", Sync::Now, close).await
}

/// Ends the turn that has asked, and says so where it was asked of it.
fn end_asking_turn(store: &Connection, ask: &Ask) -> rusqlite::Result<Option<Address>> {
    let turn = ask.turn;
    let (at, reply_to) = match transcript::unfinished_turn(store, turn)? {
        None => return Ok(None),
        Some(Ok(turn)) => (turn.address, turn.reply_to),
        Some(Err(turn)) => (turn.address, turn.reply_to),
    };
    let errand = Errand::of(&at);
    let ended = apart(store, || match errand {
        Some(errand) => errands::given_up(store, turn, (errand, &at)),
        None => {
            transcript::end_turn(store, turn, Ending::Failed)?;
            journal::settle_turn(store, turn, Fate::Refused)?;
            errands::interrupted(store, turn)
        }
    })?;
    if let Err(why) = &ended {
        tracing::error!(turn = turn.0, why, "Ended a turn without what follows from that");
        end_turn_alone(store, turn, Ending::Failed)?;
        drop(apart(store, || journal::settle_turn(store, turn, Fate::Refused))?);
    }
    match (errand, ended) {
        // Whoever asked for it has been told.
        (Some(_), Ok(())) => {}
        (Some(_), Err(_)) => drop(outbox::put(store, &ask.at, None, replies::ASK_FAILED)?),
        (None, _) => drop(outbox::put(store, &at, reply_to.as_ref(), replies::ASK_FAILED)?),
    }
    Ok(Some(at))
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
