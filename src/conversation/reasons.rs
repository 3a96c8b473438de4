//! The reasons of an answer or an action: the person who began its turn, and the sources of everything that the model had
//! been shown by then.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension};

use crate::bus::journal::read_origin_at;
use crate::conversation::actions::{self, Action, ActionQuery, ActionScope};
use crate::conversation::sources;
use crate::store::{Json, LenientJson, Time};
use crate::types::message::{ChatKind, Sender};
use crate::types::origin::Origin;
use crate::types::session::{SessionId, TurnId};
use crate::types::source::Source;

/// Identifies the answer or the action to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReasonQuery {
    /// The last answer of a conversation. None if no conversation is open.
    LastAnswer(Option<SessionId>),
    Action(ActionQuery),
}

/// The reasons of an answer or an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Reasons {
    /// None for an answer.
    pub action: Option<Action>,
    pub begun: DateTime<Utc>,
    /// The person for whom the turn works. None if the row cannot be read.
    pub person: Option<Sender>,
    pub origin: Origin,
    pub chat_kind: ChatKind,
    /// The sources that are new in the turn itself.
    pub of_turn: Vec<Source>,
    /// The earlier sources of the same conversation, newest first.
    pub earlier: Vec<Source>,
}

/// Returns the reasons. None if the answer or action does not exist, or is not in the scope.
pub fn find(
    store: &Connection,
    scope: &ActionScope,
    query: &ReasonQuery,
) -> rusqlite::Result<Option<Reasons>> {
    let (action, turn) = match query {
        ReasonQuery::Action(query) => match actions::find(store, scope, query)? {
            Some((action, turn)) => (Some(action), turn),
            None => return Ok(None),
        },
        ReasonQuery::LastAnswer(None) => return Ok(None),
        ReasonQuery::LastAnswer(Some(session)) => match last_turn(store, *session)? {
            Some(turn) => (None, turn),
            None => return Ok(None),
        },
    };
    of_turn(store, action, turn).map(Some)
}

/// Returns the last ended turn.
fn last_turn(store: &Connection, session: SessionId) -> rusqlite::Result<Option<TurnId>> {
    store
        .prepare_cached(
            "SELECT id FROM turns WHERE session = ? AND ending IS NOT NULL ORDER BY id DESC LIMIT 1",
        )?
        .query_row([session], |row| row.get(0))
        .optional()
}

fn of_turn(store: &Connection, action: Option<Action>, turn: TurnId) -> rusqlite::Result<Reasons> {
    let (session, mut reasons) = store
        .prepare_cached(
            "SELECT s.id, t.started, t.sender, s.chat_kind, s.channel, s.chat, s.thread
             FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = ?",
        )?
        .query_row([turn], |row| {
            let reasons = Reasons {
                action,
                begun: row.get::<_, Time>(1)?.0,
                person: row.get::<_, LenientJson<Sender>>(2)?.0,
                chat_kind: row.get::<_, Json<ChatKind>>(3)?.0,
                origin: read_origin_at(row, 4)?,
                of_turn: Vec::new(),
                earlier: Vec::new(),
            };
            Ok((row.get::<_, SessionId>(0)?, reasons))
        })?;
    for (since, source) in sources::up_to(store, session, turn)?.into_iter().rev() {
        if since == turn {
            reasons.of_turn.insert(0, source);
        } else {
            reasons.earlier.push(source);
        }
    }
    Ok(reasons)
}
