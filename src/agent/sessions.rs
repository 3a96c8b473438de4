//! `/sessions` and `/resume`: lists conversations by name, and continues one, even if another one is open.

use rusqlite::Connection;

use crate::bus::journal::{self, WaitingMessage};
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

/// Maximum number of conversations in a list: it fits into one message on most platforms.
const SHOWN_MAX: usize = 15;

/// Returns the text of `/sessions`: the conversations of the person or the group, all or those with `word` in their
/// names.
pub(super) async fn show(
    services: &Services,
    control: &WaitingMessage,
    word: Option<String>,
) -> Result<String, StoreError> {
    let (at, account) = (control.inbound.from.clone(), control.account());
    let chat_kind = control.inbound.chat_kind;
    let query = move |store: &Connection| {
        let owner = owner_of(store, &at, chat_kind, &account)?;
        // One more row tells that the list is cut.
        let Some(word) = word else { return named_sessions::list(store, &owner, SHOWN_MAX + 1) };
        Ok(match named_sessions::find(store, &owner, &word)? {
            FoundSession::One(session) => vec![session],
            FoundSession::Several(sessions) => sessions,
            FoundSession::None => Vec::new(),
        })
    };
    let found = services.bus.store.read(query).await?;
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

/// Answers `/resume`: continues a conversation here.
pub(super) async fn resume(
    services: &Services,
    control: &WaitingMessage,
    asked: Option<String>,
    is_busy: bool,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let chat_kind = control.inbound.chat_kind;
    let refusal = match &asked {
        _ if !CommandId::Resume.spec().allows(role, chat_kind) => Some(replies::RESUME_IN_GROUPS),
        None => Some(replies::RESUME_USAGE),
        Some(_) if is_busy => Some(replies::RESUME_BUSY),
        Some(_) => None,
    };
    let (None, Some(asked)) = (refusal, asked) else {
        return commits::reply(store, control, refusal.unwrap_or_default().to_owned()).await;
    };
    let (at, account) = (control.inbound.from.clone(), control.account());
    let closed = services.bus.closed.clone();
    let services = services.clone();
    let resumed = commits::apply_command(store, control, move |store| {
        let owner = owner_of(store, &at, chat_kind, &account)?;
        let session = match named_sessions::find(store, &owner, &asked)? {
            FoundSession::One(session) => session,
            FoundSession::None => return Ok(replies::no_such_session(&asked)),
            FoundSession::Several(several) => {
                return Ok(replies::which_session(&shown(&services, &several, &at)));
            }
        };
        continue_here(store, &services, &session, &at, &account)
    });
    resumed.await?;
    closed.notify();
    Ok(())
}

/// Moves a conversation here, and notifies the chat where it was open. Returns the reply.
fn continue_here(
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
    // It would be erased with the incognito conversation, though the other one answers it.
    if incognito::is_on(store, at)? && journal::count_waiting(store, at)? > 0 {
        return Ok(replies::RESUME_BUSY.to_owned());
    }
    incognito::end(store, at, None)?;
    sessions::close(store, at)?;
    if session.at == *at {
        named_sessions::reopen(store, session.id)?;
    } else {
        named_sessions::move_to(store, session.id, at, account)?;
        // A channel that was removed from the config cannot be notified.
        if session.is_open && services.channels.contains_key(&session.at.channel) {
            let notice = replies::session_moved(&session.name, at.channel.as_str());
            outbox::put(store, &session.at, None, &notice)?;
        }
    }
    let when = replies::time_relative_to(services.now(), session.last);
    Ok(replies::resumed(&session.name, &when))
}

/// Returns the owner of a chat's conversations: in private the person with all accounts, in a group the group.
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
