//! Closes the messages and ends the turns of people who have lost their access since they wrote.

use rusqlite::Connection;

use crate::bus::Bus;
use crate::bus::journal::{self, WaitingMessage};
use crate::conversation::transcript::UnfinishedTurn;
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::error::TurnError;
use crate::types::message::Cause;

/// Closes the messages with which a turn begins if their person would be turned away now. Returns false if they are not
/// closed. Background tasks have roles of their own.
pub(super) async fn close_without_access(
    bus: &Bus,
    rows: &[WaitingMessage],
) -> Result<bool, StoreError> {
    let Some(first) = rows.first().filter(|first| first.origin.chat().is_some()) else {
        return Ok(false);
    };
    let Cause::Person(sender) = first.inbound.cause.clone() else { return Ok(false) };
    let (inbound, people) = (first.inbound.clone(), bus.people.clone());
    let query = move |store: &Connection| people.role_of_speaker(store, &inbound, &sender);
    if bus.store.read(query).await?.is_some() {
        return Ok(false);
    }
    tracing::info!(at = %first.inbound.from, "Not answered, because the sender has no access any more");
    commits::close_without_access(&bus.store, rows.to_vec()).await?;
    Ok(true)
}

/// Ends a turn that was to go on if its person would be turned away now: nothing more is done for them. Returns false if it
/// goes on.
pub(super) async fn end_without_access(
    bus: &Bus,
    unfinished: &UnfinishedTurn,
) -> Result<bool, TurnError> {
    if unfinished.origin.chat().is_none() {
        return Ok(false);
    }
    let (turn, people) = (unfinished.turn, bus.people.clone());
    let query = move |store: &Connection| {
        let Some(first) = journal::first_of_turn(store, turn)? else { return Ok(None) };
        let Cause::Person(sender) = &first.cause else { return Ok(None) };
        let role = people.role_of_speaker(store, &first, sender)?;
        Ok(role.is_none().then_some(first))
    };
    let Some(first) = bus.store.read(query).await? else { return Ok(false) };
    tracing::info!(at = %first.from, "Ended a turn, because its person has no access any more");
    commits::end_without_access(&bus.store, turn, first).await?;
    bus.outbox.notify();
    Ok(true)
}
