//! `/sessions` and `/resume`: conversations by name, and going on with one, also where another one is open.

use rusqlite::Connection;

use crate::bus::journal::WaitingMessage;
use crate::bus::outbox;
use crate::conversation::named_sessions::{self, FoundSession, NamedSession, SessionOwner};
use crate::conversation::{actions, incognito, sessions};
use crate::people::persons::{self, PersonAccount};
use crate::replies::{self, SessionShown};
use crate::services::{Services, role_of};
use crate::store::StoreError;
use crate::turn::commits;
use crate::types::commands::CommandId;
use crate::types::message::{Address, ChatKind};

/// Conversations in a list: a message on most platforms.
const SHOWN_MAX: usize = 15;

/// Shows the conversations of the person, or of the group; those with some words in their names, if there are words.
pub(super) async fn show(
    services: &Services,
    control: &WaitingMessage,
    word: Option<String>,
) -> Result<String, StoreError> {
    let (at, account) = place_of(control);
    let chat_kind = control.inbound.chat_kind;
    let look = move |store: &Connection| {
        let owner = owner_of(store, &at, chat_kind, &account)?;
        // One more shows that there are more.
        let Some(word) = word else { return named_sessions::list(store, &owner, SHOWN_MAX + 1) };
        Ok(match named_sessions::find(store, &owner, &word)? {
            FoundSession::One(session) => vec![session],
            FoundSession::Several(sessions) => sessions,
            FoundSession::None => Vec::new(),
        })
    };
    let found = services.bus.store.read(look).await?;
    let has_more = found.len() > SHOWN_MAX;
    Ok(replies::sessions(&shown(services, &found, &control.inbound.from), has_more))
}

fn shown<'a>(
    services: &Services,
    found: &'a [NamedSession],
    here: &Address,
) -> Vec<SessionShown<'a>> {
    let shown = found.iter().take(SHOWN_MAX).map(|session| SessionShown {
        number: session.id.0,
        name: &session.name,
        channel: session.at.channel.as_str(),
        when: replies::time_relative_to(services.now(), session.last),
        turns: session.turns,
        is_open_here: session.is_open && session.at == *here,
    });
    shown.collect()
}

/// Goes on with a conversation here.
pub(super) async fn resume(
    services: &Services,
    control: &WaitingMessage,
    asked: Option<String>,
    is_busy: bool,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let chat_kind = control.inbound.chat_kind;
    let refused = match &asked {
        _ if !CommandId::Resume.spec().allows(role, chat_kind) => Some(replies::RESUME_IN_GROUPS),
        None => Some(replies::RESUME_USAGE),
        Some(_) if is_busy => Some(replies::RESUME_BUSY),
        Some(_) => None,
    };
    let (None, Some(asked)) = (refused, asked) else {
        return commits::handled(store, control, refused.unwrap_or_default().to_owned()).await;
    };
    let (at, account) = place_of(control);
    let closed = services.bus.closed.clone();
    let services = services.clone();
    let moved = commits::handled_with(store, control, move |store| {
        let owner = owner_of(store, &at, chat_kind, &account)?;
        let session = match named_sessions::find(store, &owner, &asked)? {
            FoundSession::One(session) => session,
            FoundSession::None => return Ok(replies::no_such_session(&asked)),
            FoundSession::Several(several) => {
                return Ok(replies::which_session(&shown(&services, &several, &at)));
            }
        };
        go_on(store, &services, &session, &at, &account)
    });
    moved.await?;
    closed.up();
    Ok(())
}

/// Moves a conversation here, and tells the place where it was open.
fn go_on(
    store: &Connection,
    services: &Services,
    session: &NamedSession,
    at: &Address,
    account: &PersonAccount,
) -> rusqlite::Result<String> {
    if session.is_open && session.at == *at {
        return Ok(replies::already_here(&session.name));
    }
    let open = actions::session_at(store, at)?;
    for id in open.into_iter().chain([session.id]) {
        if sessions::has_unfinished(store, id)? {
            return Ok(replies::RESUME_BUSY.to_owned());
        }
    }
    incognito::end(store, at, None)?;
    sessions::close(store, at)?;
    if session.at == *at {
        named_sessions::reopen(store, session.id)?;
    } else {
        named_sessions::move_to(store, session.id, at, account)?;
        // A channel that the config does not have any more cannot be told.
        if session.is_open && services.channels.contains_key(&session.at.channel) {
            let words = replies::session_moved(&session.name, at.channel.as_str());
            outbox::put(store, &session.at, None, &words)?;
        }
    }
    let when = replies::time_relative_to(services.now(), session.last);
    Ok(replies::resumed(&session.name, &when))
}

fn place_of(control: &WaitingMessage) -> (Address, PersonAccount) {
    let at = control.inbound.from.clone();
    let account =
        PersonAccount { channel: at.channel.clone(), sender: control.sender().id.clone() };
    (at, account)
}

/// In private the conversations are the person's, on all accounts; in a group the group's.
fn owner_of(
    store: &Connection,
    at: &Address,
    chat_kind: ChatKind,
    account: &PersonAccount,
) -> rusqlite::Result<SessionOwner> {
    if chat_kind == ChatKind::Group {
        return Ok(SessionOwner::Group(at.clone()));
    }
    let mut accounts = persons::accounts_of_same(store, &account.channel, &account.sender)?;
    if !accounts.contains(account) {
        accounts.push(account.clone());
    }
    Ok(SessionOwner::Person(accounts))
}
