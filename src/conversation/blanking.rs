//! Blanks words that somebody wants forgotten in the texts of conversations: steps, calls, summaries, plans and
//! proposals. Updates the index accordingly.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use crate::conversation::history;
use crate::people::persons::PersonAccount;
use crate::store::{
    BlankPass, BlankedSlice, ChatPlace, FORGOTTEN, ForgottenWords, Json, LenientJson, RowKey,
    TextColumns, TextForm,
};
use crate::types::session::{SessionId, TurnId};
use crate::types::source::{Source, SourceSpan, SourcedText};

/// Number of steps that are examined in one transaction.
const SLICE_STEPS: usize = 200;

/// The columns of conversations with texts, except those of steps.
pub static CONVERSATION_TEXTS: [TextColumns; 5] = [
    TextColumns {
        select: "SELECT c.id, 0, c.arguments, c.output, c.images, c.intent, c.undo FROM calls c
                 JOIN turns t ON t.id = c.turn JOIN sessions s ON s.id = t.session
                 WHERE (c.id, 0) > (?1, ?2) AND s.channel = ?3 AND s.chat = ?4 ORDER BY c.id LIMIT ?5",
        // A change of a file whose path has the words cannot be undone any more, as it would be another file.
        update: "UPDATE calls SET arguments = ?3, output = ?4, images = ?5, intent = ?6,
                 undo = iif(?7 IS undo, undo, NULL) WHERE id = ?1 AND ?2 = 0",
        columns: &[
                TextForm::Arguments,
                TextForm::Plain,
                TextForm::Json,
                TextForm::Paths,
                TextForm::Paths,
            ],
        renew: Some(|store, mark| history::index_call(store, mark.0)),
    },
    TextColumns {
        select: "SELECT id, 0, summary, frozen, plan, untrusted_summary, name, trusted_summary FROM sessions
                 WHERE (id, 0) > (?1, ?2) AND channel = ?3 AND chat = ?4 ORDER BY id LIMIT ?5",
        update: "UPDATE sessions SET summary = ?3, frozen = ?4, plan = ?5, untrusted_summary = ?6, name = ?7,
                 trusted_summary = ?8 WHERE id = ?1 AND ?2 = 0",
        columns: &[
                TextForm::Plain,
                TextForm::Json,
                TextForm::Json,
                TextForm::Plain,
                TextForm::Plain,
                TextForm::Plain,
            ],
        renew: Some(|store, mark| history::index_name(store, SessionId(mark.0))),
    },
    TextColumns {
        select: "SELECT p.id, 0, p.title, p.body FROM proposals p JOIN sessions s ON s.id = p.session
                 WHERE (p.id, 0) > (?1, ?2) AND s.channel = ?3 AND s.chat = ?4 ORDER BY p.id LIMIT ?5",
        update: "UPDATE proposals SET title = ?3, body = ?4 WHERE id = ?1 AND ?2 = 0",
        columns: &[TextForm::Plain, TextForm::Plain],
        renew: None,
    },
    TextColumns {
        // The words may span lines of the change, which begin with the signs of a diff.
        select: "SELECT id, 0, arguments,
                 CASE WHEN json_valid(untold) THEN
                     CASE WHEN json_type(untold, '$.change') = 'text' THEN
                         replace(replace(json_extract(untold, '$.change'), char(10) || '+', char(10)),
                             char(10) || '-', char(10))
                     END
                 END, files FROM deferred_calls WHERE (id, 0) > (?1, ?2) AND channel = ?3
                 AND chat = ?4 ORDER BY id LIMIT ?5",
        // A blanked call would no longer be the one that was shown, and its change (?4) is removed.
        update: "UPDATE deferred_calls SET arguments = ?3, files = ?5, queued = 0, state = 'denied',
                 untold = CASE WHEN json_valid(untold) THEN json_remove(untold, '$.change') ELSE untold END
                 WHERE id = ?1 AND ?2 = 0",
        columns: &[TextForm::Arguments, TextForm::Plain, TextForm::Paths],
        renew: None,
    },
    TextColumns {
        select: "SELECT a.id, 0, a.files FROM asks a JOIN turns t ON t.id = a.turn
                 JOIN sessions s ON s.id = t.session WHERE (a.id, 0) > (?1, ?2) AND s.channel = ?3
                 AND s.chat = ?4 ORDER BY a.id LIMIT ?5",
        // The approval covers no file any more.
        update: "UPDATE asks SET files = ?3 WHERE id = ?1 AND ?2 = 0",
        columns: &[TextForm::Paths],
        renew: None,
    },
];

/// Finds the words in a slice of the steps of a chat. Blanks them if `pass.blanks` is set. Each part keeps its source.
pub fn blank_steps(
    store: &Connection,
    chat: &ChatPlace,
    words: &ForgottenWords,
    pass: BlankPass,
) -> rusqlite::Result<BlankedSlice> {
    let mut select = store.prepare_cached(
        "SELECT p.turn, p.seq, p.input, p.sources, p.text, p.thinking, p.images
         FROM steps p
         JOIN turns t ON t.id = p.turn JOIN sessions s ON s.id = t.session
         WHERE (p.turn, p.seq) > (?, ?) AND s.channel = ? AND s.chat = ?
         ORDER BY p.turn, p.seq LIMIT ?",
    )?;
    let limit = i64::try_from(SLICE_STEPS).unwrap_or(i64::MAX);
    let mut rows =
        select.query(params![pass.after.0, pass.after.1, chat.channel, chat.chat, limit])?;
    let (mut slice, mut last, mut count) = (BlankedSlice::default(), None, 0);
    while let Some(row) = rows.next()? {
        let mark = RowKey(row.get(0)?, row.get(1)?);
        (last, count) = (Some(mark), count + 1);
        let input: Option<String> = row.get(2)?;
        let spans = row.get::<_, Option<LenientJson<Vec<SourceSpan>>>>(3)?;
        let (text, thinking): (String, String) = (row.get(4)?, row.get(5)?);
        let input = input.map(|input| {
            SourcedText::from_stored(input, spans.and_then(|it| it.0).unwrap_or_default())
        });
        let new_input = input.as_ref().and_then(|input| blanked_parts(input, words));
        let new_text = words.blanked(&text);
        // A provider accepts its own reasoning blocks only unchanged.
        let words_in_thinking = words.are_in(&thinking);
        let images: Option<String> = row.get(6)?;
        let new_images =
            images.as_deref().and_then(|images| words.blanked_json(images, TextForm::Json));
        let is_same = new_input.is_none() && new_text.is_none() && new_images.is_none();
        if is_same && !words_in_thinking {
            continue;
        }
        slice.changed.push(mark);
        if !pass.blanks {
            continue;
        }
        if let Some(input) = &new_input {
            store
                .prepare_cached(
                    "UPDATE steps SET input = ?, sources = ? WHERE turn = ? AND seq = ?",
                )?
                .execute(params![&**input, Json(input.spans()), mark.0, mark.1])?;
        }
        if let Some(images) = &new_images {
            store
                .prepare_cached("UPDATE steps SET images = ? WHERE turn = ? AND seq = ?")?
                .execute(params![images, mark.0, mark.1])?;
        }
        let thinking = if words_in_thinking { "[]" } else { &thinking };
        store
            .prepare_cached("UPDATE steps SET text = ?, thinking = ? WHERE turn = ? AND seq = ?")?
            .execute(params![new_text.unwrap_or(text), thinking, mark.0, mark.1])?;
    }
    let turns: BTreeSet<_> = slice.changed.iter().map(|mark| TurnId(mark.0)).collect();
    if pass.blanks {
        turns.into_iter().try_for_each(|turn| history::index_turn(store, turn))?;
    }
    slice.next = last.filter(|_| count == SLICE_STEPS);
    Ok(slice)
}

/// Returns the parts without the words. None if they do not contain them. A source whose name contains the words becomes
/// unknown, which counts as untrusted, because a shortened name could be that of another file.
fn blanked_parts(input: &SourcedText, words: &ForgottenWords) -> Option<SourcedText> {
    let has_words = |source: &Source| source.name().is_some_and(|name| words.are_in(name));
    if !words.are_in(input) && !input.iter().any(|part| has_words(part.source)) {
        return None;
    }
    let mut parts = SourcedText::default();
    for part in input.iter() {
        let source = if has_words(part.source) { Source::Unknown } else { part.source.clone() };
        let blanked = words.blanked(part.text);
        parts.push(source, blanked.as_deref().unwrap_or(part.text));
    }
    // The words may span parts.
    Some(if words.are_in(&parts) { SourcedText::of(Source::Program, FORGOTTEN) } else { parts })
}

/// Returns the private chats of a person, or the chat of a group, and those of the background tasks that belong to them.
pub fn chats_of(store: &Connection, keys: &ForgottenChats) -> rusqlite::Result<Vec<ChatPlace>> {
    let mut chats = BTreeSet::new();
    match keys {
        ForgottenChats::Group(chat) => {
            chats.insert(chat.clone());
        }
        ForgottenChats::Person(accounts) => {
            let mut select = store.prepare_cached(
                "SELECT DISTINCT s.channel, s.chat FROM sessions s JOIN turns t ON t.session = s.id
                 WHERE s.channel = ? AND s.chat_kind = '\"private\"' AND s.kind IN ('chat', 'aside')
                 AND iif(json_valid(t.sender), json_extract(t.sender, '$.id'), NULL) = ?",
            )?;
            for PersonAccount { channel, sender } in accounts {
                let read = |row: &rusqlite::Row<'_>| {
                    Ok(ChatPlace { channel: row.get(0)?, chat: row.get(1)? })
                };
                for chat in select.query_map(params![channel, sender], read)? {
                    chats.insert(chat?);
                }
            }
        }
    }
    let mut tasks = store.prepare_cached(
        "SELECT DISTINCT channel, chat FROM sessions WHERE people_channel = ? AND people_chat = ?",
    )?;
    for chat in chats.clone() {
        let read =
            |row: &rusqlite::Row<'_>| Ok(ChatPlace { channel: row.get(0)?, chat: row.get(1)? });
        for task in tasks.query_map(params![chat.channel, chat.chat], read)? {
            chats.insert(task?);
        }
    }
    Ok(chats.into_iter().collect())
}

/// The chats that are searched for words to forget.
#[derive(Clone, Debug)]
pub enum ForgottenChats {
    /// The accounts of a person.
    Person(Vec<PersonAccount>),
    Group(ChatPlace),
}

/// Returns true if a turn of these chats has not ended, because its texts are in memory.
pub fn has_unfinished_turn(store: &Connection, chats: &[ChatPlace]) -> rusqlite::Result<bool> {
    let mut running = store.prepare_cached(
        "SELECT 1 FROM turns t JOIN sessions s ON s.id = t.session
         WHERE t.ending IS NULL AND s.channel = ? AND s.chat = ?",
    )?;
    for chat in chats {
        if running.exists(params![chat.channel, chat.chat])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the stored undo data of calls in a chat, with the hashes of former versions of files.
pub fn before_images_of(store: &Connection, chat: &ChatPlace) -> rusqlite::Result<Vec<String>> {
    let mut rows = store.prepare_cached(
        "SELECT c.undo FROM calls c JOIN turns t ON t.id = c.turn JOIN sessions s ON s.id = t.session
         WHERE c.undo IS NOT NULL AND s.channel = ? AND s.chat = ?",
    )?;
    rows.query_map(params![chat.channel, chat.chat], |row| row.get(0))?.collect()
}
