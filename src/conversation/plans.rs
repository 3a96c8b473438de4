//! The plan of a conversation in the store.

use rusqlite::{Connection, OptionalExtension, params};

use crate::bus::journal;
use crate::store::{Json, LenientJson};
use crate::types::message::Address;
use crate::types::session::{Plan, SessionId, TurnId};

/// Replaces the plan of a turn's conversation. An empty plan removes it.
pub(crate) fn set(store: &Connection, turn: TurnId, plan: &Plan) -> rusqlite::Result<()> {
    let text = (!plan.items.is_empty()).then_some(Json(plan));
    store
        .prepare_cached(
            "UPDATE sessions SET plan = ? WHERE id = (SELECT session FROM turns WHERE id = ?)",
        )?
        .execute(params![text, turn])?;
    Ok(())
}

/// Returns the plan of the open conversation at an address. None if it cannot be read.
pub fn at(store: &Connection, at: &Address) -> rusqlite::Result<Option<Plan>> {
    let plan = store
        .prepare_cached(
            "SELECT plan FROM sessions WHERE closed IS NULL AND kind = 'chat' AND channel = ?
             AND chat = ? AND ifnull(thread, '') = ?",
        )?
        .query_row(journal::address_key_params(at), |row| row.get::<_, LenientJson<Plan>>(0))
        .optional()?;
    Ok(plan.and_then(|plan| plan.0))
}

pub(crate) fn of(store: &Connection, session: SessionId) -> rusqlite::Result<Option<Plan>> {
    let plan = store
        .prepare_cached("SELECT plan FROM sessions WHERE id = ?")?
        .query_row([session], |row| row.get::<_, LenientJson<Plan>>(0))
        .optional()?;
    Ok(plan.and_then(|plan| plan.0))
}

/// Removes the plan of a conversation if a model kept it that had read untrusted content and it is open, as it stands in
/// the next prompt. Returns it.
pub(crate) fn take_untrusted(
    store: &Connection,
    session: SessionId,
) -> rusqlite::Result<Option<Plan>> {
    let plan = of(store, session)?.filter(|plan| plan.tainted && plan.is_open());
    if plan.is_some() {
        store.prepare_cached("UPDATE sessions SET plan = NULL WHERE id = ?")?.execute([session])?;
    }
    Ok(plan)
}
