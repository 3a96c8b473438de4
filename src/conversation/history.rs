//! Conversations in the search index: each ended turn with the texts of people and of the bot. Also returns the sources
//! of found turns, because the model may have repeated their content. A conversation's name is indexed with its first
//! turn.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::conversation::sources;
use crate::memory::recall::progress::{IndexCount, IndexedParts};
use crate::memory::recall::{self, RecallKind, RecallText};
use crate::provider::{COMPLETION, CONVERSE};
use crate::short_text::first_chars;
use crate::store::{LenientJson, Time, in_savepoint};
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::session::{SessionId, TurnId};
use crate::types::source::{Source, SourcedText};

/// Maximum indexed length of a turn, in characters. The end of a longer one is not found.
const TURN_CHARS_MAX: usize = 30_000;

/// A turn of a conversation with people, to be indexed.
struct IndexedTurn {
    at: Address,
    chat_kind: ChatKind,
    sender: Sender,
    started: DateTime<Utc>,
    /// The name of the conversation, if this is its first turn.
    name: Option<String>,
}

/// Indexes a turn in the transaction that ends it. Turns of background tasks and turns for notes are not indexed.
pub(crate) fn index_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    if let Err(error) = in_savepoint(store, || index(store, turn))? {
        tracing::warn!(turn = turn.0, %error, "Cannot index a turn, so it will not be found");
    }
    Ok(())
}

fn index(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    let Some(ended) = find(store, turn)? else { return Ok(()) };
    let text = said(store, turn, &ended)?;
    let text = first_chars(&text, TURN_CHARS_MAX);
    let key = recall::conversation_key(store, &ended.at, ended.chat_kind, &ended.sender.id)?;
    let at = ended.started;
    recall::put(store, &RecallText { key: &key, kind: RecallKind::Turn, source: turn.0, at, text })
}

/// Indexes the first turn of a conversation again, because the name is indexed with it.
pub(crate) fn index_name(store: &Connection, session: SessionId) -> rusqlite::Result<()> {
    first_turn(store, session)?.map_or(Ok(()), |turn| index_turn(store, turn))
}

/// Indexes the turn of a call again if the call's text was sent to people, because that is indexed with the turn.
pub(super) fn index_call(store: &Connection, call: i64) -> rusqlite::Result<()> {
    let turn = store
        .prepare_cached(&format!(
            "SELECT turn FROM calls WHERE id = ? AND tool IN ('{COMPLETION}', '{CONVERSE}')"
        ))?
        .query_row([call], |row| row.get(0))
        .optional()?;
    turn.map_or(Ok(()), |turn| index_turn(store, turn))
}

/// Returns the first turn of a conversation that a person began.
pub(super) fn first_turn(
    store: &Connection,
    session: SessionId,
) -> rusqlite::Result<Option<TurnId>> {
    store
        .prepare_cached(
            "SELECT id FROM turns WHERE session = ? AND NOT silent AND NOT noted ORDER BY id LIMIT 1",
        )?
        .query_row([session], |row| row.get(0))
        .optional()
}

/// Removes a turn from the index.
pub(crate) fn forget_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    recall::remove(store, RecallKind::Turn, turn.0)
}

fn find(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<IndexedTurn>> {
    let found = store
        .prepare_cached(
            "SELECT s.channel, s.chat, s.thread, s.chat_kind, t.sender, t.started, s.id, s.name
             FROM turns t JOIN sessions s ON s.id = t.session
             WHERE t.id = ? AND t.ending IS NOT NULL AND NOT t.silent AND s.kind IN ('chat', 'aside')
             AND s.incognito IS NULL",
        )?
        .query_row([turn], |row| {
            // A turn of an unknown person is not indexed.
            let Some(sender) = row.get::<_, LenientJson<_>>(4)?.0 else { return Ok(None) };
            Ok(Some(IndexedTurn {
                at: Address { channel: row.get(0)?, chat: row.get(1)?, thread: row.get(2)? },
                // A chat of unknown kind counts as a group, so that its texts stay there.
                chat_kind: row.get::<_, LenientJson<_>>(3)?.0.unwrap_or(ChatKind::Group),
                sender,
                started: row.get::<_, Time>(5)?.0,
                name: name_of_first(store, turn, row.get(6)?, row.get(7)?)?,
            }))
        })
        .optional()?;
    Ok(found.flatten())
}

/// Returns the name of a conversation if the turn is its first one.
fn name_of_first(
    store: &Connection,
    turn: TurnId,
    session: SessionId,
    name: Option<String>,
) -> rusqlite::Result<Option<String>> {
    let is_first = name.is_some() && first_turn(store, session)? == Some(turn);
    Ok(name.filter(|_| is_first))
}

/// Returns the indexed text of a turn: the messages of people without the program's additions, and the texts of the
/// bot, including calls whose text was sent to people.
fn said(store: &Connection, turn: TurnId, ended: &IndexedTurn) -> rusqlite::Result<String> {
    let mut rows = store.prepare_cached(&format!(
        "SELECT p.input, p.sources, p.text, ifnull((SELECT group_concat(c.output, char(10)) FROM calls c
         WHERE c.turn = p.turn AND c.step = p.seq AND c.state = 'done'
         AND c.tool IN ('{COMPLETION}', '{CONVERSE}')), '')
         FROM steps p WHERE p.turn = ? ORDER BY p.seq"
    ))?;
    let mut text =
        ended.name.as_ref().map_or_else(String::new, |name| format!("Conversation: {name}\n"));
    let mut rows = rows.query([turn])?;
    while let Some(row) = rows.next()? {
        let input = sources::input(row.get(0)?, row.get(1)?);
        let input = input.as_ref().map(words_of_people).unwrap_or_default();
        let speaker = match ended.chat_kind {
            ChatKind::Private => String::new(),
            ChatKind::Group => format!("{}: ", ended.sender.name),
        };
        if !input.trim().is_empty() {
            text.push_str(&format!("> {speaker}{}\n", input.trim()));
        }
        let bot_text = format!("{}{}", row.get::<_, String>(2)?, row.get::<_, String>(3)?);
        if !bot_text.trim().is_empty() {
            text.push_str(&format!("You: {}\n", bot_text.trim()));
        }
    }
    Ok(text)
}

/// Returns the parts of an input by people, tasks and quotes, without those that the program added or read from memory.
fn words_of_people(input: &SourcedText) -> String {
    let parts = input.iter().filter(|part| !part.source.is_added());
    parts.map(|part| part.text).collect()
}

/// Counts all turns, and those that are in the index. None if none is missing that ended before there was an index.
pub fn count_backfilled(store: &Connection) -> rusqlite::Result<Option<IndexCount>> {
    let Some(below) = recall::backfill_below(store)? else { return Ok(None) };
    let mut counted =
        store.prepare_cached("SELECT count(*) FILTER (WHERE id >= ?), count(*) FROM turns")?;
    let counted = counted.query_row([below], |row| {
        Ok(IndexCount { parts: IndexedParts::Messages, done: row.get(0)?, total: row.get(1)? })
    });
    counted.map(Some)
}

/// Indexes a slice of the turns that ended before there was an index, newest first. Returns their number.
pub fn backfill(store: &Connection) -> rusqlite::Result<usize> {
    let Some(below) = recall::backfill_below(store)? else { return Ok(0) };
    let mut statement =
        store.prepare_cached("SELECT id FROM turns WHERE id < ? ORDER BY id DESC LIMIT ?")?;
    let turns = statement
        .query_map(params![below, recall::backfill_slice()], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<TurnId>>>()?;
    for turn in &turns {
        index_turn(store, *turn)?;
    }
    let below = turns.last().map_or(0, |turn| turn.0);
    recall::set_backfill_below(store, below)?;
    Ok(turns.len())
}

/// A turn that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTurn {
    pub session: SessionId,
    /// The sources of everything that the model had been shown in the conversation by then, which it may have repeated.
    pub sources: Vec<Source>,
}

/// The turns of a conversation that its model sees anyway: all from `begins` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenTurns {
    pub session: SessionId,
    pub begins: TurnId,
}

/// Returns the conversations of found turns, with their sources. Leaves out turns that were deleted meanwhile, and those
/// of `seen`, for which all sources of a long conversation would be read at each message.
pub fn found_turns(
    store: &Connection,
    turns: &[TurnId],
    seen: Option<SeenTurns>,
) -> rusqlite::Result<BTreeMap<TurnId, FoundTurn>> {
    let mut session_of = store.prepare_cached("SELECT session FROM turns WHERE id = ?")?;
    let mut sessions: BTreeMap<SessionId, Vec<TurnId>> = BTreeMap::new();
    for turn in turns {
        let session: Option<SessionId> =
            session_of.query_row([turn], |row| row.get(0)).optional()?;
        let is_seen = |session: &SessionId| {
            seen.is_some_and(|seen| seen.session == *session && seen.begins <= *turn)
        };
        if let Some(session) = session.filter(|session| !is_seen(session)) {
            sessions.entry(session).or_default().push(*turn);
        }
    }
    let mut found = BTreeMap::new();
    for (session, turns) in sessions {
        let last = turns.iter().max().copied().unwrap_or(TurnId(0));
        let all = sources::up_to(store, session, last)?;
        for turn in turns {
            let by_then = all.iter().filter(|(first, _)| *first <= turn);
            let sources = by_then.map(|(_, source)| source.clone()).collect();
            found.insert(turn, FoundTurn { session, sources });
        }
    }
    Ok(found)
}
