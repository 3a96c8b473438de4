//! Results of background tasks that have read untrusted content. In a private conversation a line of the program's stands
//! for one, so that the next turn stays clean. The text is kept beside the conversation, where a call opens it.

use chrono::DateTime;
use chrono_tz::Tz;
use rusqlite::{Connection, OptionalExtension, params};

use crate::bus::journal::{address_params, read_address};
use crate::conversation::forgetting::{forget_empty_session, forget_turns};
use crate::conversation::sessions::{self, Note};
use crate::conversation::{history, presence, sources};
use crate::memory::recall::{self, RecallKind};
use crate::people::persons;
use crate::store::{Json, Time};
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::session::{SessionId, TurnId};
use crate::types::source::{Source, SourcedText};

/// The word before the number of a result, in a search for it.
pub const RESULT: &str = "result";

/// Results that are kept for a chat, the newest. A daily job is found for a quarter of a year.
const KEPT_MAX: i64 = 100;

/// Stands as the answer of the turn, as after calls that send one.
const SENT: &str = "[Sent.]";

/// The result of a task that has read untrusted content.
pub struct UntrustedResult<'a> {
    /// The task, with nothing that is untrusted: `job 3`.
    pub name: SourcedText,
    /// When it was made.
    pub at: DateTime<Tz>,
    /// The text before the result, with its sources.
    pub input: SourcedText,
    pub text: &'a str,
}

/// Adds a finished turn about a result that was sent to a conversation: a reference to it in a private one, else `note`,
/// which has the text. In a group others have read it, and speak about it. An incognito conversation keeps nothing
/// elsewhere.
pub fn note(
    store: &Connection,
    session: SessionId,
    note: &Note<'_>,
    result: &UntrustedResult<'_>,
) -> rusqlite::Result<()> {
    let Some(chat) = private_chat(store, session, note.sender)? else {
        return sessions::note(store, session, note);
    };
    let kept = keep(store, &chat, note.provider, result)?;
    let (input, said) = (reference(result, kept), SENT.to_owned());
    let reference = Note { sender: note.sender, provider: note.provider, input, said };
    sessions::add(store, session, &reference)?;
    sessions::delete_oldest_notes(store, session)
}

/// The line in place of a result.
fn reference(result: &UntrustedResult<'_>, kept: TurnId) -> SourcedText {
    let mut line = SourcedText::of(Source::Program, "[The result of ");
    line.append(&result.name);
    let (at, number) = (result.at.format("%a %Y-%m-%d %H:%M"), kept.0);
    line.push_program(format!(
        ", {at}, was sent here. It has untrusted content, so it is not shown: if the person speaks about it, open it by \
         memory_search with query “{RESULT} {number}” and scope “untrusted”.]"
    ));
    line
}

/// A private conversation, and its person as they are known there.
struct PrivateChat {
    at: Address,
    person: Sender,
}

/// Returns a conversation if it is a private one that is not incognito, and its reader is known. The result is theirs,
/// whoever made the task.
fn private_chat(
    store: &Connection,
    session: SessionId,
    sender: &Sender,
) -> rusqlite::Result<Option<PrivateChat>> {
    let at = store
        .prepare_cached(
            "SELECT channel, chat, thread FROM sessions
             WHERE id = ? AND kind = 'chat' AND chat_kind = ? AND incognito IS NULL",
        )?
        .query_row(params![session, Json(ChatKind::Private)], read_address)
        .optional()?;
    let Some(at) = at else { return Ok(None) };
    let person = match presence::private_reader(store, &at)? {
        Some(reader) => Some(reader),
        // Nobody has spoken in it yet.
        None => persons::person_of(store, &at.channel, &sender.id)?.map(|_| sender.clone()),
    };
    Ok(person.map(|person| PrivateChat { at, person }))
}

/// Keeps a result in a closed conversation of its own, beside that of its person.
fn keep(
    store: &Connection,
    chat: &PrivateChat,
    provider: &str,
    result: &UntrustedResult<'_>,
) -> rusqlite::Result<TurnId> {
    let (channel, place, thread) = address_params(&chat.at);
    store
        .prepare_cached(
            "INSERT INTO sessions (channel, chat, thread, chat_kind, opened, closed, kind)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, 'aside')",
        )?
        .execute(params![channel, place, thread, Json(ChatKind::Private), Time::now()])?;
    let session = SessionId(store.last_insert_rowid());
    let (input, said) = (result.input.clone(), result.text.to_owned());
    let turn =
        sessions::add(store, session, &Note { sender: &chat.person, provider, input, said })?;
    history::index_turn(store, turn)?;
    forget_older(store, &chat.at)?;
    Ok(turn)
}

/// A result that stands for itself: a turn that was noted beside a conversation. Questions aside are not noted.
const KEPT: &str = "s.kind = 'aside' AND t.noted";

fn forget_older(store: &Connection, at: &Address) -> rusqlite::Result<()> {
    let mut older = store.prepare_cached(&format!(
        "SELECT t.id, s.id FROM sessions s JOIN turns t ON t.session = s.id
         WHERE s.channel = ? AND s.chat = ? AND {KEPT} ORDER BY t.id DESC LIMIT -1 OFFSET ?"
    ))?;
    let older = older
        .query_map(params![at.channel, at.chat, KEPT_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<(TurnId, SessionId)>>>()?;
    for (turn, session) in older {
        forget_turns(store, &[turn])?;
        forget_empty_session(store, session)?;
    }
    Ok(())
}

/// A result that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedResult {
    pub text: String,
    pub sources: Vec<Source>,
}

/// Returns a result for somebody who reads it in a private chat. None if it is not theirs, or not kept any more.
pub fn open(
    store: &Connection,
    number: TurnId,
    reader: &Sender,
    at: &Address,
) -> rusqlite::Result<Option<OpenedResult>> {
    // Who may find it may open it.
    let keys = recall::conversation_keys(store, at, ChatKind::Private, &reader.id)?;
    if !recall::is_findable(store, RecallKind::Turn, number.0, &keys)? {
        return Ok(None);
    }
    let found = store
        .prepare_cached(&format!(
            "SELECT s.id, p.input, p.sources, p.text FROM turns t JOIN sessions s ON s.id = t.session
             JOIN steps p ON p.turn = t.id WHERE t.id = ? AND {KEPT} ORDER BY p.seq LIMIT 1"
        ))?
        .query_row([number], |row| {
            let input = sources::input(row.get(1)?, row.get(2)?).unwrap_or_default();
            let said: String = row.get(3)?;
            Ok((row.get::<_, SessionId>(0)?, format!("{}\n{said}", &*input)))
        })
        .optional()?;
    let Some((session, text)) = found else { return Ok(None) };
    let sources = sources::up_to(store, session, number)?;
    Ok(Some(OpenedResult { text, sources: sources.into_iter().map(|(_, it)| it).collect() }))
}
