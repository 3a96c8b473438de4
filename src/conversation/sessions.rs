//! Conversations in the store: opens and closes them, and adds messages that the program sent by itself.
//! Such a message is stored as a finished turn (a note), so that the model sees it in the next turn.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::bus::journal::{origin_params, read_address};
use crate::conversation::forgetting::{forget_sessions, forget_turns, forget_unseen_turns};
use crate::conversation::history;
use crate::conversation::presence;
use crate::conversation::settings;
use crate::people::persons::PersonAccount;
use crate::store::{Json, LenientJson, Time};
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::origin::Origin;
use crate::types::session::{SessionId, Settings, TurnId};
use crate::types::source::{Source, SourcedText};

/// Retention of conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Retention after a conversation was closed, or after a summarized turn ended.
    pub kept: Duration,
    /// Size of the database in bytes above which the oldest conversations are deleted earlier.
    pub database_bytes_max: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { kept: KEPT, database_bytes_max: DATABASE_BYTES_MAX }
    }
}

/// Default size of the database in bytes above which conversations are deleted earlier.
const DATABASE_BYTES_MAX: u64 = 2_000_000_000;

/// Maximum number of consecutive notes at the end of a conversation in which nobody speaks. The oldest are deleted:
/// people who come back ask about the last ones, and each uses tokens of every later prompt.
pub const NOTES_MAX: usize = 20;

/// Retention of turns that models no longer see: a year, so that somebody who asks about the same time last year
/// still finds them.
pub const KEPT: Duration = Duration::days(365);

/// Maximum length of the text in a note, in characters. The model has not been asked about it yet, and people have the
/// whole text.
pub const NOTE_CHARS_MAX: usize = 1_000;

/// Returns the text for a note, shortened if it is long.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(NOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}…\n(The rest was sent, too.)", &text[..end]),
        None => text.to_owned(),
    }
}

/// The value of `sessions.kind` of a conversation with people.
const CHAT: &str = "chat";

/// Returns the SQL condition for the open session of an origin. Its parameters are `origin_params`, with an empty
/// thread for none. The kinds are literals, to match the partial indices of conversations and tasks.
pub fn open_for(origin: &Origin) -> String {
    let kinds = match origin {
        Origin::Chat(_) => "kind = 'chat'",
        Origin::Task { .. } => "kind NOT IN ('chat', 'aside', 'command')",
    };
    format!("closed IS NULL AND {kinds} AND channel = ? AND chat = ? AND ifnull(thread, '') = ?")
}

/// Returns the addresses of an account's open private conversations. One that somebody else reads is none of them, although
/// it may have turns that worked for the account: notes of its jobs, and those of older versions.
pub fn private_of(store: &Connection, account: &PersonAccount) -> rusqlite::Result<Vec<Address>> {
    let mut open = store.prepare_cached(
        "SELECT s.channel, s.chat, s.thread FROM sessions s
         WHERE s.closed IS NULL AND s.kind = 'chat' AND s.channel = ? AND s.chat_kind = ?
         AND EXISTS (SELECT 1 FROM turns t WHERE t.session = s.id
             AND iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL) = ?)",
    )?;
    let chat_kind = Json(ChatKind::Private);
    let with_turns =
        open.query_map(params![account.channel, chat_kind, account.sender], read_address)?;
    let mut own = Vec::new();
    for at in with_turns.collect::<rusqlite::Result<Vec<_>>>()? {
        let reader = presence::private_reader(store, &at)?;
        if reader.is_none_or(|reader| reader.id == account.sender) {
            own.push(at);
        }
    }
    Ok(own)
}

/// Returns the id of the open session of an origin. Opens one if there is none. One that a note has opened as a group's,
/// because nobody had spoken there, becomes private with the first message in private.
pub fn open_or_begin(
    store: &Connection,
    origin: impl Into<Origin>,
    chat_kind: ChatKind,
) -> rusqlite::Result<SessionId> {
    let origin = origin.into();
    let (channel, chat, thread) = origin_params(&origin);
    let open = store
        .prepare_cached(&format!("SELECT id, chat_kind FROM sessions WHERE {}", open_for(&origin)))?
        .query_row((&channel, &chat, thread.unwrap_or_default()), |row| {
            Ok((row.get::<_, SessionId>(0)?, row.get::<_, LenientJson<ChatKind>>(1)?.0))
        })
        .optional()?;
    if let Some((open, stored_kind)) = open {
        if chat_kind == ChatKind::Private && stored_kind != Some(ChatKind::Private) {
            store
                .prepare_cached("UPDATE sessions SET chat_kind = ? WHERE id = ?")?
                .execute(params![Json(chat_kind), open])?;
        }
        return Ok(open);
    }
    store
        .prepare_cached(
            "INSERT INTO sessions (channel, chat, thread, chat_kind, opened, kind)
             VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            channel,
            chat,
            thread,
            Json(chat_kind),
            Time::now(),
            origin.task().map_or(CHAT, |task| task.kind.as_str())
        ])?;
    Ok(SessionId(store.last_insert_rowid()))
}

/// Closes the open session of an origin, which is stored but never used again.
pub fn close(store: &Connection, origin: impl Into<Origin>) -> rusqlite::Result<()> {
    let origin = origin.into();
    let (channel, chat, thread) = origin_params(&origin);
    store
        .prepare_cached(&format!("UPDATE sessions SET closed = ? WHERE {}", open_for(&origin)))?
        .execute(params![Time::now(), channel, chat, thread.unwrap_or_default()])
        .map(drop)
}

/// Sets the summary of a new session to a record of an earlier one, of which everything is trusted.
pub fn set_summary(
    store: &Connection,
    session: SessionId,
    record: &str,
    sources: &[Source],
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET summary = ?, summary_sources = ? WHERE id = ?")?
        .execute(params![record, Json(sources), session])
        .map(drop)
}

/// The conversation of a turn, and the person for whom the turn works.
pub struct TurnSession {
    pub session: SessionId,
    pub at: Address,
    pub chat_kind: ChatKind,
    pub settings: Settings,
    pub sender: Sender,
    /// Time at which the turn started.
    pub started: DateTime<Utc>,
}

/// Returns the conversation of a turn.
pub fn of_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<TurnSession> {
    store
        .prepare_cached(
            "SELECT s.channel, s.chat, s.thread, s.id, s.chat_kind, s.settings, t.sender, t.started
             FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = ?",
        )?
        .query_row([turn], |row| {
            Ok(TurnSession {
                at: read_address(row)?,
                session: row.get(3)?,
                chat_kind: row.get::<_, Json<_>>(4)?.0,
                settings: settings::read(row, 5)?,
                sender: row.get::<_, Json<_>>(6)?.0,
                started: row.get::<_, Time>(7)?.0,
            })
        })
}

/// Returns the id of a turn's conversation. None if the turn was deleted.
pub fn id_of_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<SessionId>> {
    store
        .prepare_cached("SELECT session FROM turns WHERE id = ?")?
        .query_row([turn], |row| row.get(0))
        .optional()
}

/// Returns true if a turn of a conversation has not ended.
pub fn has_unfinished(store: &Connection, session: SessionId) -> rusqlite::Result<bool> {
    store
        .prepare_cached("SELECT 1 FROM turns WHERE session = ? AND ending IS NULL")?
        .exists([session])
}

/// A message that the program sent by itself.
pub struct Note<'a> {
    /// The person it is for.
    pub sender: &'a Sender,
    /// The provider that wrote it, or a reserved word if none did.
    pub provider: &'a str,
    /// The input that the model is shown.
    pub input: SourcedText,
    /// The sent text, which is stored as the model's own.
    pub said: String,
}

/// Adds a note to a conversation as a finished turn.
pub fn note(store: &Connection, session: SessionId, note: &Note<'_>) -> rusqlite::Result<()> {
    let turn = add(store, session, note)?;
    history::index_turn(store, turn)?;
    delete_oldest_notes(store, session)
}

/// Adds the turn alone, which is neither indexed nor bounded.
pub(super) fn add(
    store: &Connection,
    session: SessionId,
    note: &Note<'_>,
) -> rusqlite::Result<TurnId> {
    store
        .prepare_cached(
            "INSERT INTO turns (session, sender, attempts, provider, started, ended, ending, noted)
             VALUES (?1, ?2, 1, ?3, ?4, ?4, '\"answered\"', 1)",
        )?
        .execute(params![session, Json(note.sender), note.provider, Time::now()])?;
    let turn = TurnId(store.last_insert_rowid());
    store
        .prepare_cached(
            "INSERT INTO steps (turn, seq, input, sources, text, thinking) VALUES (?, 0, ?, ?, ?, '[]')",
        )?
        .execute(params![turn, &*note.input, Json(note.input.spans()), note.said])?;
    Ok(turn)
}

/// Deletes the oldest notes since a person last spoke.
pub(super) fn delete_oldest_notes(store: &Connection, session: SessionId) -> rusqlite::Result<()> {
    let mut too_old = store.prepare_cached(
        "SELECT id FROM turns WHERE session = ?1 AND noted = 1
         AND id > (SELECT ifnull(max(id), 0) FROM turns WHERE session = ?1 AND noted = 0)
         ORDER BY id DESC LIMIT -1 OFFSET ?2",
    )?;
    let limit = i64::try_from(NOTES_MAX).expect("a small number");
    let too_old = too_old
        .query_map(params![session, limit], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    forget_turns(store, &too_old)
}

/// Deletes a slice of the conversations and side questions that were closed before a time, and of the summarized turns of
/// open conversations. Returns the number of rows.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut deleted = forget_unseen_turns(store, before)?;
    for kind in [CHAT, "aside"] {
        deleted += forget_sessions(store, kind, before)?;
    }
    Ok(deleted)
}
