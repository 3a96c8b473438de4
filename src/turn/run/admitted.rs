//! Closes the messages of people who have lost their access since they wrote.

use rusqlite::Connection;

use crate::bus::Bus;
use crate::bus::journal::WaitingMessage;
use crate::store::StoreError;
use crate::turn::commits;
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
