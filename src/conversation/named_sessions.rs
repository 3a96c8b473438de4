//! Conversations by name: lists those of a person or a group, finds one, and moves one to another address.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::bus::journal::read_address;
use crate::conversation::{history, sources};
use crate::people::persons::{self, PersonAccount};
use crate::short_text::clean_name;
use crate::store::{Json, LenientJson, Time};
use crate::types::message::{Address, ChannelName, ChatKind, SenderId};
use crate::types::session::SessionId;
use crate::types::source::Source;

/// Number of words of the first message that form the name of a conversation which no model has named.
const NAME_WORDS: usize = 6;

/// Maximum number of conversations of a channel that are read, newest first.
const LOOKED_AT_MAX: i64 = 2_000;

/// The owner of the conversations that are listed or continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOwner {
    /// The private conversations of all accounts of a person.
    Person(Vec<PersonAccount>),
    /// The conversations at the address of a group.
    Group(Address),
}

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSession {
    pub id: SessionId,
    pub name: String,
    pub at: Address,
    pub opened: DateTime<Utc>,
    /// Time at which its last turn began.
    pub last: DateTime<Utc>,
    pub turns: usize,
    pub is_open: bool,
}

/// The conversations that match a name.
#[derive(Clone, Debug, PartialEq)]
pub enum FoundSession {
    One(NamedSession),
    Several(Vec<NamedSession>),
    None,
}

/// Names a conversation that has no name yet, and indexes the name.
pub fn name_once(store: &Connection, session: SessionId, name: &str) -> rusqlite::Result<()> {
    let named = store
        .prepare_cached("UPDATE sessions SET name = ? WHERE id = ? AND name IS NULL")?
        .execute(params![name, session])?;
    if named > 0 { history::index_name(store, session) } else { Ok(()) }
}

/// Returns the conversations of a person or a group with at least one message, newest first.
pub fn list(
    store: &Connection,
    owner: &SessionOwner,
    limit: usize,
) -> rusqlite::Result<Vec<NamedSession>> {
    let mut sessions = Vec::new();
    let (channels, chat_kind) = match owner {
        SessionOwner::Person(accounts) => {
            let mut channels: Vec<_> =
                accounts.iter().map(|account| account.channel.clone()).collect();
            channels.sort();
            channels.dedup();
            (channels, ChatKind::Private)
        }
        SessionOwner::Group(at) => (vec![at.channel.clone()], ChatKind::Group),
    };
    let mut rows = store.prepare_cached(
        "SELECT channel, chat, thread, id, opened, closed IS NULL, name, moved FROM sessions
         WHERE kind = 'chat' AND incognito IS NULL AND channel = ? AND chat_kind = ?
         ORDER BY id DESC LIMIT ?",
    )?;
    for channel in channels {
        let mut rows = rows.query(params![channel, Json(chat_kind), LOOKED_AT_MAX])?;
        let mut remaining = limit;
        while let (true, Some(row)) = (remaining > 0, rows.next()?) {
            let (at, id) = (read_address(row)?, row.get(3)?);
            let moved = row.get::<_, LenientJson<(ChannelName, SenderId)>>(7)?.0;
            let Some(first) = first_words(store, id)? else { continue };
            let (channel, sender) = moved.unwrap_or_else(|| (at.channel.clone(), first.by));
            let opened = row.get::<_, Time>(4)?.0;
            if !is_of(store, owner, &at, &PersonAccount { channel, sender }, opened)? {
                continue;
            }
            let (turns, last) = size(store, id)?;
            // A former version kept names as the model wrote them.
            let name = row.get::<_, Option<String>>(6)?.and_then(|name| clean_name(&name));
            let name = name.or(first.name);
            sessions.push(NamedSession {
                id,
                name: name.unwrap_or_else(|| format!("conversation {}", id.0)),
                at,
                opened,
                last,
                turns,
                is_open: row.get(5)?,
            });
            remaining -= 1;
        }
    }
    sessions.sort_by_key(|session| std::cmp::Reverse((session.last, session.id)));
    sessions.truncate(limit);
    Ok(sessions)
}

/// Returns true if a conversation of an account, opened at a time, belongs to the owner. One from before the removal of
/// the account's person belongs to nobody.
fn is_of(
    store: &Connection,
    owner: &SessionOwner,
    at: &Address,
    account: &PersonAccount,
    opened: DateTime<Utc>,
) -> rusqlite::Result<bool> {
    match owner {
        SessionOwner::Group(group) => Ok(group == at),
        SessionOwner::Person(accounts) if accounts.contains(account) => {
            let removed = persons::last_removal(store, account)?;
            Ok(removed.is_none_or(|removed| opened > removed))
        }
        SessionOwner::Person(_) => Ok(false),
    }
}

/// The first speaker of a conversation, and a name made of their first words.
struct FirstWords {
    by: SenderId,
    name: Option<String>,
}

/// Returns the first speaker and their words. None if nobody has spoken.
fn first_words(store: &Connection, session: SessionId) -> rusqlite::Result<Option<FirstWords>> {
    let Some(turn) = history::first_turn(store, session)? else { return Ok(None) };
    let first = store
        .prepare_cached(
            "SELECT iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL), p.input, p.sources
             FROM turns t JOIN steps p ON p.turn = t.id AND p.seq = 0 WHERE t.id = ?",
        )?
        .query_row([turn], |row| {
            let Some(by) = row.get::<_, Option<SenderId>>(0)? else { return Ok(None) };
            let input = sources::input(row.get(1)?, row.get(2)?);
            let words: Vec<_> = input
                .iter()
                .flat_map(|input| input.iter())
                .filter(|part| matches!(part.source, Source::Person { .. }))
                .flat_map(|part| part.text.split_whitespace())
                .take(NAME_WORDS)
                .collect();
            Ok(Some(FirstWords { by, name: clean_name(&words.join(" ")) }))
        })
        .optional()?;
    Ok(first.flatten())
}

/// Returns the number of turns that people began, and the time at which the last one began.
fn size(store: &Connection, session: SessionId) -> rusqlite::Result<(usize, DateTime<Utc>)> {
    store
        .prepare_cached(
            "SELECT count(*), ifnull(max(started), 0) FROM turns
             WHERE session = ? AND NOT silent AND NOT noted",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get::<_, Time>(1)?.0)))
}

/// Finds conversations of an owner by a number (`#12`), a name or a part of a name.
pub fn find(
    store: &Connection,
    owner: &SessionOwner,
    query: &str,
) -> rusqlite::Result<FoundSession> {
    let limit = usize::try_from(LOOKED_AT_MAX).expect("a small number");
    let mut known = list(store, owner, limit)?;
    let query = query.trim().to_lowercase();
    let number = query.trim_start_matches('#').parse().ok().map(SessionId);
    let matchers: [&dyn Fn(&NamedSession) -> bool; 3] = [
        &|session| Some(session.id) == number,
        &|session| session.name.to_lowercase() == query,
        &|session| session.name.to_lowercase().contains(&query),
    ];
    for matches in matchers {
        let mut matching: Vec<_> = known.extract_if(.., |session| matches(session)).collect();
        match matching.len() {
            0 => {}
            1 => return Ok(FoundSession::One(matching.remove(0))),
            _ => return Ok(FoundSession::Several(matching)),
        }
    }
    Ok(FoundSession::None)
}

/// Continues a conversation at an address without an open one, on behalf of an account.
pub fn move_to(
    store: &Connection,
    session: SessionId,
    at: &Address,
    by: &PersonAccount,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE sessions SET channel = ?, chat = ?, thread = ?, closed = NULL, moved = ? WHERE id = ?",
        )?
        .execute(params![at.channel, at.chat, at.thread, Json((&by.channel, &by.sender)), session])
        .map(drop)
}

/// Opens a closed conversation again at its address.
pub fn reopen(store: &Connection, session: SessionId) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET closed = NULL WHERE id = ?")?
        .execute([session])
        .map(drop)
}
