//! The presence of people at an address, derived from its conversations: the person who was last answered, the person who
//! reads a private chat, the kind of the chat, and if a turn runs there.

use rusqlite::{Connection, OptionalExtension, params};

use crate::bus::journal::{self, address_params};
use crate::people::persons::PersonAccount;
use crate::people::{self, persons};
use crate::store::{Json, LenientJson};
use crate::types::message::{Address, ChatKind, Sender, SenderId};
use crate::types::session::SessionId;

/// Latest turns of a private chat among which its reader is searched. Only turns that older versions began for jobs of
/// other persons come after the reader's own.
const TURNS_MAX: u32 = 50;

/// Returns the kind of chat at an address. A group if it is unknown.
pub fn chat_kind_of(store: &Connection, at: &Address) -> rusqlite::Result<ChatKind> {
    let chat_kind = store
        .prepare_cached(
            "SELECT chat_kind FROM sessions WHERE channel = ? AND chat = ? ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![at.channel, at.chat], |row| row.get::<_, Json<ChatKind>>(0))
        .optional()?;
    Ok(chat_kind.map_or(ChatKind::Group, |chat_kind| chat_kind.0))
}

/// Returns true if a chat is known as a group: people have spoken to the bot there, and never in private. A note of a job
/// may have opened the conversation of a chat of which nothing is known.
pub fn is_known_group(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    let (has_private, has_group): (bool, bool) = store
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM sessions s
                 WHERE s.kind = 'chat' AND s.channel = ?1 AND s.chat = ?2 AND s.chat_kind = ?3),
             EXISTS (SELECT 1 FROM sessions s JOIN turns t ON t.session = s.id
                 WHERE s.kind = 'chat' AND s.channel = ?1 AND s.chat = ?2 AND s.chat_kind = ?4
                 AND NOT t.noted)",
        )?
        .query_row(
            params![at.channel, at.chat, Json(ChatKind::Private), Json(ChatKind::Group)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
    // Commands alone begin no conversation.
    Ok(!has_private && (has_group || journal::has_group_message(store, at)?))
}

/// Returns the person who was last answered at an address, if the chat is private.
pub fn last_in_private(store: &Connection, at: &Address) -> rusqlite::Result<Option<SenderId>> {
    let (channel, chat, thread) = address_params(at);
    let last = store
        .prepare_cached(
            "SELECT iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL)
             FROM turns t JOIN sessions s ON s.id = t.session
             WHERE s.kind = 'chat' AND s.chat_kind = '\"private\"' AND s.channel = ? AND s.chat = ?
             AND s.thread IS ? AND NOT t.noted ORDER BY t.id DESC LIMIT 1",
        )?
        .query_row(params![channel, chat, thread], |row| row.get::<_, Option<SenderId>>(0))
        .optional()?;
    Ok(last.flatten())
}

/// Returns the person who spoke last in the open private conversation at an address.
pub fn private_speaker(store: &Connection, at: &Address) -> rusqlite::Result<Option<Sender>> {
    last_speaker(store, at, "AND s.closed IS NULL")
}

/// Returns the person who reads a private chat: who spoke last in any of its conversations, or the owner if it is the
/// owner's address. None for a group, and if nobody is known to have spoken there.
pub fn private_reader(store: &Connection, at: &Address) -> rusqlite::Result<Option<Sender>> {
    let speaker = last_speaker(store, at, "")?;
    if speaker.is_some() {
        return Ok(speaker);
    }
    let owner = people::owner(store)?
        .filter(|(owner, _)| (&owner.channel, &owner.chat) == (&at.channel, &at.chat));
    let id = owner.and_then(|(_, id)| id);
    Ok(id.map(|id| Sender::person(id.clone(), id.as_str())))
}

/// Returns true if somebody who was removed since has spoken in private at an address.
pub fn has_removed_speaker(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    let mut speakers = store.prepare_cached(
        "SELECT DISTINCT iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL)
         FROM sessions s JOIN turns t ON t.session = s.id
         WHERE s.kind = 'chat' AND s.channel = ? AND s.chat = ? AND s.chat_kind = ? AND NOT t.noted",
    )?;
    let chat_kind = Json(ChatKind::Private);
    let speakers = speakers.query_map(params![at.channel, at.chat, chat_kind], |row| {
        row.get::<_, Option<SenderId>>(0)
    })?;
    for speaker in speakers {
        let Some(sender) = speaker? else { continue };
        let account = PersonAccount { channel: at.channel.clone(), sender };
        if persons::last_removal(store, &account)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the person who spoke last in the private conversations at an address that match a condition. The program's own
/// notes have the person for whom their task worked, who may be somebody else: they do not count, nor does anybody who is
/// not known on the channel.
fn last_speaker(
    store: &Connection,
    at: &Address,
    condition: &str,
) -> rusqlite::Result<Option<Sender>> {
    // Reads one turn of each session, and not all turns of a chat, which become many.
    let mut sessions = store.prepare_cached(&format!(
        "SELECT s.id FROM sessions s
         WHERE s.kind = 'chat' AND s.channel = ? AND s.chat = ? AND s.chat_kind = ? {condition}
         ORDER BY (SELECT t.id FROM turns t WHERE t.session = s.id AND NOT t.noted
                   ORDER BY t.id DESC LIMIT 1) DESC"
    ))?;
    let mut turns = store.prepare_cached(
        "SELECT sender FROM turns WHERE session = ? AND NOT noted ORDER BY id DESC LIMIT ?",
    )?;
    let chat_kind = Json(ChatKind::Private);
    let mut sessions = sessions.query(params![at.channel, at.chat, chat_kind])?;
    let mut left = TURNS_MAX;
    while let Some(session) = sessions.next()? {
        let session: SessionId = session.get(0)?;
        let mut speakers = turns.query(params![session, left])?;
        while let Some(row) = speakers.next()? {
            left -= 1;
            let LenientJson(speaker) = row.get::<_, LenientJson<Sender>>(0)?;
            if let Some(speaker) = speaker
                && persons::person_of(store, &at.channel, &speaker.id)?.is_some()
            {
                return Ok(Some(speaker));
            }
        }
        if left == 0 {
            break;
        }
    }
    Ok(None)
}

/// Returns true if the conversation at an address is in a turn that is not suspended.
pub fn is_busy(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    let (channel, chat, thread) = address_params(at);
    store
        .prepare_cached(
            "SELECT 1 FROM turns t JOIN sessions s ON s.id = t.session WHERE t.ending IS NULL
             AND t.suspended = 0 AND s.channel = ? AND s.chat = ? AND s.thread IS ?",
        )?
        .exists(params![channel, chat, thread])
}
