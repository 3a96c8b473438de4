//! The owner's conversations for the command line: listed, searched and exported. Those of other persons are theirs.

use std::collections::BTreeSet;

use chrono::Utc;
use chrono_tz::Tz;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{ControlServer, Response, SessionsRequest};
use crate::conversation::history;
use crate::conversation::named_sessions::{self, FoundSession, NamedSession, SessionOwner};
use crate::conversation::session_export;
use crate::memory::recall::query::{self, RecallQuery};
use crate::memory::recall::{RecallKey, RecallKind, words};
use crate::people::persons::PersonAccount;
use crate::people::{People, Role, listing};
use crate::store::StoreError;
use crate::types::session::{SessionId, TurnId};

/// Maximum number of listed conversations.
const LISTED_MAX: usize = 200;

/// Maximum number of passages that a search considers.
const PASSAGES_MAX: usize = 100;

pub(super) async fn answer(
    server: &ControlServer,
    request: SessionsRequest,
) -> Result<Response, StoreError> {
    let services = &server.turns.services;
    let (zone, people) = (services.zone, services.bus.people.clone());
    let read_answer = move |store: &Connection| read(store, &people, &request, zone);
    services.bus.store.search(read_answer).await.map(Response::Listing)
}

/// Answers a request. For one conversation: returns it, the several with such a name, or null.
fn read(
    store: &Connection,
    people: &People,
    request: &SessionsRequest,
    zone: Tz,
) -> rusqlite::Result<Value> {
    let owners = listing::list(store, people, None)?;
    let owners = owners.iter().filter(|person| person.role == Some(Role::Owner));
    let accounts = owners.flat_map(|person| &person.accounts);
    let accounts: Vec<_> = accounts
        .map(|it| PersonAccount { channel: it.channel.clone(), sender: it.id.clone() })
        .collect();
    let keys =
        accounts.iter().map(|it| RecallKey::current_of_account(store, &it.channel, &it.sender));
    let keys = keys.collect::<rusqlite::Result<Vec<_>>>()?;
    let owner = SessionOwner::Person(accounts);
    let to_json = |session: &NamedSession| session_json(session, zone);
    Ok(match request {
        SessionsRequest::List => {
            let known = named_sessions::list(store, &owner, LISTED_MAX)?;
            known.iter().map(to_json).collect::<Vec<_>>().into()
        }
        SessionsRequest::Search { words } => {
            let found = sessions_with(store, keys, words)?;
            let mut known = named_sessions::list(store, &owner, LISTED_MAX)?;
            let wanted = words.to_lowercase();
            known.retain(|it| found.contains(&it.id) || it.name.to_lowercase().contains(&wanted));
            known.iter().map(to_json).collect::<Vec<_>>().into()
        }
        SessionsRequest::Show { asked } => match named_sessions::find(store, &owner, asked)? {
            FoundSession::One(session) => {
                json!({ "session": session_export::export(store, &session)? })
            }
            FoundSession::Several(several) => {
                json!({ "several": several.iter().map(to_json).collect::<Vec<_>>() })
            }
            FoundSession::None => Value::Null,
        },
    })
}

/// Returns the conversations whose messages contain a text.
fn sessions_with(
    store: &Connection,
    keys: Vec<RecallKey>,
    text: &str,
) -> rusqlite::Result<BTreeSet<SessionId>> {
    let terms = words::terms(text);
    let now = Utc::now();
    let query =
        RecallQuery { keys, terms, since: None, now, limit: PASSAGES_MAX, needs_rare: false };
    let hits = query::search(store, &query)?;
    let turns = hits.iter().filter(|hit| hit.kind == RecallKind::Turn);
    let turns: Vec<_> = turns.map(|hit| TurnId(hit.source)).collect();
    let found = history::found_turns(store, &turns, None)?;
    Ok(found.values().map(|turn| turn.session).collect())
}

fn session_json(session: &NamedSession, zone: Tz) -> Value {
    json!({
        "number": session.id, "name": session.name, "channel": session.at.channel, "chat": session.at.chat,
        "thread": session.at.thread, "opened": session.opened, "last": session.last, "turns": session.turns,
        "open": session.is_open,
        "day": session.last.with_timezone(&zone).format("%Y-%m-%d %H:%M").to_string(),
    })
}
