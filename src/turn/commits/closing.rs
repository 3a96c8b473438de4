//! The commits that close rows which cannot be read, or fail each time. The person gets a message, the row is
//! kept for inspection, and everything else goes on.

use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome, RowId, UnreadableRow};
use crate::bus::outbox;
use crate::conversation::asks::{self, Ask};
use crate::conversation::transcript::{self, UnreadableTurn, end_turn_alone};
use crate::replies;
use crate::store::{Store, StoreError, Sync, in_savepoint};
use crate::turn::background;
use crate::turn::commits::guarded::commit_if_running;
use crate::turn::commits::jobs;
use crate::turn::error::CommitError;
use crate::turn::refused;
use crate::types::message::Address;
use crate::types::origin::Origin;
use crate::types::session::{TurnId, TurnOutcome};

/// Closes messages and commands that cannot be read.
pub(crate) async fn close_unreadable_rows(
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
pub(crate) async fn close_failing_rows(
    store: &Store,
    rows: Vec<RowId>,
    why: String,
    message: &'static str,
) -> Result<(), StoreError> {
    let close = move |store: &Connection| {
        let mut message = Some(message);
        rows.iter().try_for_each(|row| match message.take() {
            Some(message) => close(store, *row, &why, message),
            // Rows that belong together get one message.
            None => journal::close_unreadable(store, *row, &why).map(drop),
        })
    };
    store.write("failed", Sync::Now, close).await
}

/// Closes an ask that cannot be settled, together with its turn, even if other parts of that fail. Returns the
/// origin of the turn.
pub(crate) async fn close_failing_ask(
    store: &Store,
    ask: Ask,
    why: String,
) -> Result<Option<Origin>, StoreError> {
    let close = move |store: &Connection| {
        tracing::error!(
            ask = ask.id.0,
            why,
            "Closed a question of a turn, because it fails each time"
        );
        if !asks::close_unreadable(store, &ask, &why)? {
            return Ok(None);
        }
        let closed = in_savepoint(store, || {
            outbox::close_question(store, ask.delivery, replies::NO_LONGER_NEEDED)
        })?;
        if let Err(why) = closed {
            tracing::warn!(ask = ask.id.0, why, "Cannot remove the buttons of a closed question");
        }
        end_asking_turn(store, &ask)
    };
    store.write("ask failed", Sync::Now, close).await
}

/// Ends the turn of an ask, and sends a message to its chat. Returns the origin of the turn.
fn end_asking_turn(store: &Connection, ask: &Ask) -> rusqlite::Result<Option<Origin>> {
    let turn = ask.turn;
    let (origin, reply_to) = match transcript::unfinished_turn(store, turn)? {
        None => return Ok(None),
        Some(Ok(turn)) => (turn.origin, turn.reply_to),
        Some(Err(turn)) => (turn.origin, turn.reply_to),
    };
    let ended = in_savepoint(store, || match &origin {
        Origin::Task { .. } => background::give_up(store, turn, &origin),
        Origin::Chat(_) => {
            refused::report(store, turn, false)?;
            transcript::end_turn(store, turn, TurnOutcome::Failed)?;
            journal::settle_turn(store, turn, InboundOutcome::Refused)?;
            jobs::interrupt_run(store, turn)
        }
    })?;
    if let Err(why) = &ended {
        tracing::error!(turn = turn.0, why, "Ended a turn without its consequences");
        drop(in_savepoint(store, || refused::report(store, turn, false))?);
        end_turn_alone(store, turn, TurnOutcome::Failed)?;
        drop(in_savepoint(store, || journal::settle_turn(store, turn, InboundOutcome::Refused))?);
    }
    match (&origin, ended) {
        // The end of the task has notified its people.
        (Origin::Task { .. }, Ok(())) => {}
        (Origin::Task { .. }, Err(_)) => {
            outbox::put(store, &ask.at, None, replies::ASK_FAILED)?;
        }
        (Origin::Chat(at), _) => {
            outbox::put(store, at, reply_to.as_ref(), replies::ASK_FAILED)?;
        }
    }
    Ok(Some(origin))
}

/// Closes a row with a message to its chat, or with the failure of its task.
fn close(store: &Connection, row: RowId, why: &str, message: &str) -> rusqlite::Result<()> {
    match journal::close_unreadable(store, row, why)? {
        None => Ok(()),
        Some(Origin::Chat(at)) => send(store, &at, message),
        Some(origin @ Origin::Task { .. }) => background::fail(store, &origin),
    }
}

/// Ends a turn that cannot be read.
pub(crate) async fn end_unreadable_turn(
    store: &Store,
    unreadable: UnreadableTurn,
) -> Result<(), CommitError> {
    let turn = unreadable.turn;
    tracing::error!(turn = turn.0, why = unreadable.why, "Cannot read a turn, ended it");
    commit_if_running(store, "unreadable", Sync::Now, turn, move |store| {
        transcript::store_unreadable_turn(store, &unreadable)?;
        let Origin::Chat(at) = &unreadable.origin else {
            return background::give_up(store, turn, &unreadable.origin);
        };
        // It may have been the run of a job, which nobody could be asked about.
        refused::report(store, turn, false)?;
        transcript::end_turn(store, turn, TurnOutcome::Failed)?;
        journal::settle_turn(store, turn, InboundOutcome::Refused)?;
        jobs::interrupt_run(store, turn)?;
        let reply_to = unreadable.reply_to.as_ref();
        outbox::put(store, at, reply_to, replies::TURN_UNREADABLE).map(drop)
    })
    .await
}

/// Ends a background task whose turn was interrupted too often.
pub(crate) async fn give_up_task(
    store: &Store,
    turn: TurnId,
    task: Origin,
) -> Result<(), CommitError> {
    let give_up = move |store: &Connection| background::give_up(store, turn, &task);
    commit_if_running(store, "task given up", Sync::Now, turn, give_up).await
}

fn send(store: &Connection, at: &Address, message: &str) -> rusqlite::Result<()> {
    outbox::put_urgent(store, at, None, message).map(drop)
}
