//! Rows of conversations that this version cannot read. An unfinished turn is closed by itself; of ended
//! turns, the model is shown the readable rest.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal::{self, read_origin};
use crate::conversation::transcript::UnfinishedTurn;
use crate::store::{Json, Time};
use crate::types::message::MessageId;
use crate::types::origin::Origin;
use crate::types::session::{TurnId, TurnOutcome};

/// A turn that has not ended and cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnreadableTurn {
    pub(crate) turn: TurnId,
    pub(crate) origin: Origin,
    pub(crate) reply_to: Option<MessageId>,
    pub(crate) why: String,
}

/// Reads a turn from the columns of `UNFINISHED`. The outer error concerns the store, the inner one only the row.
pub(super) fn turn_of(row: &Row<'_>) -> rusqlite::Result<Result<UnfinishedTurn, UnreadableTurn>> {
    let (turn, origin) = (row.get(3)?, read_origin(row)?);
    let reply_to: Option<MessageId> = row.get(5).ok().flatten();
    let read = || {
        Ok(UnfinishedTurn {
            turn,
            origin: origin.clone(),
            sender: row.get::<_, Json<_>>(4)?.0,
            reply_to: reply_to.clone(),
            attempts: row.get(6)?,
            draft: row.get(7)?,
            silent: row.get(8)?,
            suspended: row.get(9)?,
            model_wait: row.get::<_, Option<Json<_>>>(10)?.map(|wait| wait.0),
        })
    };
    let read: rusqlite::Result<_> = read();
    Ok(read.map_err(|error| UnreadableTurn { turn, origin, reply_to, why: error.to_string() }))
}

/// Stores the raw row of an unreadable turn.
pub(crate) fn store_unreadable_turn(
    store: &Connection,
    unreadable: &UnreadableTurn,
) -> rusqlite::Result<()> {
    let raw: Option<String> = store
        .prepare_cached(
            "SELECT json_object('session', session, 'sender', sender, 'reply_to', reply_to,
                                'attempts', attempts, 'provider', provider, 'started', started)
             FROM turns WHERE id = ?",
        )?
        .query_row([unreadable.turn], |row| row.get(0))
        .optional()?;
    let (channel, ..) = journal::origin_params(&unreadable.origin);
    let key = format!("turn {}", unreadable.turn);
    journal::store_unreadable_row(store, &key, &channel, &raw.unwrap_or_default(), &unreadable.why)
}

/// Ends a turn without changing its calls and questions.
pub(crate) fn end_turn_alone(
    store: &Connection,
    turn: TurnId,
    ending: TurnOutcome,
) -> rusqlite::Result<()> {
    let now = Time::now();
    store
        .prepare_cached(
            "UPDATE turns SET ended = ?, ending = ?, suspended = 0, model_wait = NULL WHERE id = ?",
        )?
        .execute(params![now, Json(&ending), turn])?;
    Ok(())
}
