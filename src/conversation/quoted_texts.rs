//! Finds the turns in which the bot wrote a quoted text, and the sources that their models had been shown.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use crate::conversation::{sessions, sources};
use crate::types::message::Address;
use crate::types::session::{SessionId, TurnId};
use crate::types::source::Source;

/// Number of newest turns of a chat that are searched. A quote of an older one has an unknown source.
const TURNS_MAX: i64 = 500;

/// Maximum number of conversations with the same text. The author of a quote that stands in more is unknown.
const CONVERSATIONS_MAX: usize = 8;

/// Number of letters and digits of a quote that are compared. Platforms cut quotes at different lengths.
const LETTERS_MAX: usize = 300;

/// Returns, for each conversation of a chat that wrote a text, the sources of everything that its model had been shown
/// when it last wrote it. Empty if no such turn is known.
pub(crate) fn sources_of_text(
    store: &Connection,
    at: &Address,
    text: &str,
) -> rusqlite::Result<Vec<Vec<Source>>> {
    let wanted: String = letters(text).chars().take(LETTERS_MAX).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut turns = turns_that_said(store, at, &wanted)?;
    let mut known = BTreeSet::new();
    turns.retain(|(session, _)| known.insert(*session));
    if turns.len() > CONVERSATIONS_MAX {
        return Ok(Vec::new());
    }
    turns.into_iter().map(|(_, turn)| sources_of_turn(store, turn)).collect()
}

/// Returns the sources of everything that the model of a turn had been shown. An unknown source if the turn was deleted.
pub(crate) fn sources_of_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<Source>> {
    let Some(session) = sessions::id_of_turn(store, turn)? else {
        return Ok(vec![Source::Unknown]);
    };
    Ok(sources::up_to(store, session, turn)?.into_iter().map(|(_, source)| source).collect())
}

/// Returns the turns that wrote the text, newest first.
fn turns_that_said(
    store: &Connection,
    at: &Address,
    wanted: &str,
) -> rusqlite::Result<Vec<(SessionId, TurnId)>> {
    let mut rows = store.prepare_cached(
        "SELECT t.session, t.id, p.text, (SELECT json_group_array(c.arguments) FROM calls c
             WHERE c.turn = p.turn AND c.step = p.seq)
         FROM steps p JOIN turns t ON t.id = p.turn WHERE p.turn IN
             (SELECT t.id FROM turns t JOIN sessions s ON s.id = t.session
              WHERE s.channel = ? AND s.chat = ? ORDER BY t.id DESC LIMIT ?)
         ORDER BY p.turn DESC",
    )?;
    let mut rows = rows.query(params![at.channel, at.chat, TURNS_MAX])?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        let turn = (row.get::<_, SessionId>(0)?, row.get::<_, TurnId>(1)?);
        if turns.last() != Some(&turn)
            && (letters(row.get_ref(2)?.as_str()?).contains(wanted)
                || letters(&texts_of_calls(row.get_ref(3)?.as_str()?)).contains(wanted))
        {
            turns.push(turn);
        }
    }
    Ok(turns)
}

/// Returns all texts in the arguments of calls, such as a message, a question or a proposal.
fn texts_of_calls(arguments: &str) -> String {
    let calls: Vec<String> = serde_json::from_str(arguments).unwrap_or_default();
    let mut texts = String::new();
    for call in calls {
        push_texts(&mut texts, &serde_json::from_str(&call).unwrap_or_default());
    }
    texts
}

fn push_texts(texts: &mut String, value: &serde_json::Value) {
    match value {
        serde_json::Value::String(text) => texts.push_str(text),
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| push_texts(texts, value))
        }
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|value| push_texts(texts, value));
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

/// Returns the letters and digits of a text in lower case: platforms change its markup.
fn letters(text: &str) -> String {
    text.chars()
        .filter(|character| character.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}
