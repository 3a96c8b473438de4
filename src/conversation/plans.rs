//! The plan of a conversation in the store.

use rusqlite::{Connection, OptionalExtension, params};

use crate::types::session::{Plan, SessionId, TurnId};

/// The plan of a turn's conversation is this now; an empty one is none.
pub(crate) fn set(store: &Connection, turn: TurnId, plan: &Plan) -> rusqlite::Result<()> {
    let text = serde_json::to_string(plan).expect("our own types have string keys");
    let text = (!plan.items.is_empty()).then_some(text);
    store
        .prepare_cached(
            "UPDATE sessions SET plan = ? WHERE id = (SELECT session FROM turns WHERE id = ?)",
        )?
        .execute(params![text, turn.0])?;
    Ok(())
}

pub(crate) fn of(store: &Connection, session: SessionId) -> rusqlite::Result<Option<Plan>> {
    let text = store
        .prepare_cached("SELECT plan FROM sessions WHERE id = ?")?
        .query_row([session.0], |row| row.get::<_, Option<String>>(0))
        .optional()?;
    Ok(text.flatten().and_then(|text| serde_json::from_str(&text).ok()))
}
