//! Incognito conversations (`/incognito`): they are not indexed, get no name and no facts, and their texts are erased
//! when they are over. The record of actions stays, without arguments and results.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::bus::forgetting::{self, MessageRange};
use crate::bus::journal::{RowId, read_address};
use crate::conversation::actions;
use crate::store::{FORGOTTEN, Json, LenientJson};
use crate::types::message::Address;
use crate::types::session::SessionId;
use crate::types::source::{Source, SourcedText};

/// Maximum number of conversations that are erased in one transaction.
const ERASED_MAX: usize = 4;

/// The tools that store content outside of files, or pass content to another conversation.
pub const HIDDEN_TOOLS: [&str; 8] = [
    "remember",
    "note",
    "spawn",
    "subagent",
    "schedule",
    "propose",
    "update_proposal",
    "list_proposals",
];

/// The messages of an incognito conversation: rows after one, up to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IncognitoRange {
    after: MessageRange,
    /// None while it is open.
    up_to: Option<MessageRange>,
    /// True if its texts are erased.
    #[serde(default)]
    is_erased: bool,
}

/// Makes a new conversation incognito, from the messages after `row` on.
pub fn begin(store: &Connection, session: SessionId, row: RowId) -> rusqlite::Result<()> {
    let after = forgetting::newest(store)?.at(row);
    set_range(store, session, &IncognitoRange { after, up_to: None, is_erased: false })
}

/// Returns true if the open conversation at an address is incognito.
pub fn is_on(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    let Some(session) = actions::session_at(store, at)? else { return Ok(false) };
    Ok(range_of(store, session)?.is_some())
}

/// Stores the end of the message range of the conversation at an address, which is about to be closed: the command that
/// closes it, or the last message before those that the next conversation answers.
pub fn end(store: &Connection, at: &Address, row: Option<RowId>) -> rusqlite::Result<()> {
    let Some(session) = actions::session_at(store, at)? else { return Ok(()) };
    let Some(range) = range_of(store, session)? else { return Ok(()) };
    let newest = forgetting::newest(store)?;
    let up_to = row.map_or(newest, |row| newest.at(row));
    set_range(store, session, &IncognitoRange { up_to: Some(up_to), ..range })
}

/// Returns the incognito conversations that are over and have texts.
pub fn due(store: &Connection) -> rusqlite::Result<Vec<SessionId>> {
    let mut rows = store.prepare_cached(
        "SELECT id FROM sessions WHERE incognito IS NOT NULL AND closed IS NOT NULL
         AND NOT ifnull(iif(json_valid(incognito), json_extract(incognito, '$.is_erased'), NULL), 0)
         AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id AND ending IS NULL) LIMIT ?",
    )?;
    let limit = i64::try_from(ERASED_MAX).expect("a small number");
    rows.query_map([limit], |row| row.get(0))?.collect()
}

/// Erases the texts of conversations that are over, and returns the erased ones. One with an unfinished message waits.
/// Can be repeated until [`note_erased`].
pub fn erase(store: &Connection, sessions: &[SessionId]) -> rusqlite::Result<Vec<SessionId>> {
    let mut erased = Vec::new();
    for session in sessions {
        let Some(range) = range_of(store, *session)? else { continue };
        let at = store
            .prepare_cached("SELECT channel, chat, thread FROM sessions WHERE id = ?")?
            .query_row([session], read_address)?;
        let up_to = match range.up_to {
            Some(up_to) => up_to,
            None => forgetting::newest(store)?,
        };
        if forgetting::erase(store, &at, range.after, up_to)? {
            erase_session(store, *session)?;
            set_range(store, *session, &IncognitoRange { up_to: Some(up_to), ..range })?;
            erased.push(*session);
        }
    }
    Ok(erased)
}

/// Marks conversations as erased completely, including free pages of the database.
pub fn note_erased(store: &Connection, sessions: &[SessionId]) -> rusqlite::Result<()> {
    for session in sessions {
        if let Some(range) = range_of(store, *session)? {
            set_range(store, *session, &IncognitoRange { is_erased: true, ..range })?;
        }
    }
    Ok(())
}

fn erase_session(store: &Connection, session: SessionId) -> rusqlite::Result<()> {
    let nothing = SourcedText::of(Source::Program, FORGOTTEN);
    store
        .prepare_cached(
            "UPDATE steps SET input = iif(input IS NULL, NULL, ?2), sources = iif(input IS NULL, NULL, ?3),
             text = '', thinking = '[]', images = NULL
             WHERE turn IN (SELECT id FROM turns WHERE session = ?1)",
        )?
        .execute(params![session, FORGOTTEN, Json(nothing.spans())])?;
    store
        .prepare_cached(
            "UPDATE calls SET arguments = '{}', output = iif(output IS NULL, NULL, ?2), images = NULL, sources = '[]'
             WHERE turn IN (SELECT id FROM turns WHERE session = ?1)",
        )?
        .execute(params![session, FORGOTTEN])?;
    store
        .prepare_cached("UPDATE turns SET sources = '[]' WHERE session = ?")?
        .execute([session])?;
    store
        .prepare_cached(
            "UPDATE sessions SET summary = NULL, trusted_summary = NULL, untrusted_summary = NULL, frozen = NULL,
             plan = NULL, name = NULL WHERE id = ?",
        )?
        .execute([session])
        .map(drop)
}

fn range_of(store: &Connection, session: SessionId) -> rusqlite::Result<Option<IncognitoRange>> {
    let range: Option<Option<LenientJson<IncognitoRange>>> = store
        .prepare_cached("SELECT incognito FROM sessions WHERE id = ?")?
        .query_row([session], |row| row.get(0))
        .optional()?;
    Ok(range.flatten().and_then(|range| range.0))
}

fn set_range(
    store: &Connection,
    session: SessionId,
    range: &IncognitoRange,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET incognito = ? WHERE id = ?")?
        .execute(params![Json(range), session])
        .map(drop)
}
