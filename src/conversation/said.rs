//! Finds the turns in which the bot said a text that comes back to it as a quote, and what their models had been shown.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use crate::conversation::{sessions, sources};
use crate::types::message::Address;
use crate::types::session::{SessionId, TurnId};
use crate::types::source::Source;

/// Turns of a chat that are looked at, the newest. A quote of an older one is of an unknown source.
const TURNS_MAX: i64 = 500;

/// Maximum number of conversations that may have said the same. The author of a quote from more is unknown.
const CONVERSATIONS_MAX: usize = 8;

/// Letters and digits of a quote that are compared. Platforms cut longer quotes at different lengths.
const LETTERS_MAX: usize = 300;

/// Returns, for each conversation of a chat that said a text, the sources of all that its model had been shown when it
/// last said so. Nothing if no turn is known that said it.
pub(crate) fn sources_of_said(
    store: &Connection,
    at: &Address,
    text: &str,
) -> rusqlite::Result<Vec<Vec<Source>>> {
    let wanted: String = letters(text).chars().take(LETTERS_MAX).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = turns_that_said(store, at, &wanted)?;
    let mut known = BTreeSet::new();
    found.retain(|(session, _)| known.insert(*session));
    if found.len() > CONVERSATIONS_MAX {
        return Ok(Vec::new());
    }
    found.into_iter().map(|(_, turn)| sources_of_author(store, turn)).collect()
}

/// Returns the sources of all that the model of a turn had been shown; an unknown one if the turn was forgotten.
pub(crate) fn sources_of_author(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<Source>> {
    let Some(session) = sessions::id_of_turn(store, turn)? else {
        return Ok(vec![Source::Unknown]);
    };
    Ok(sources::up_to(store, session, turn)?.into_iter().map(|(_, source)| source).collect())
}

/// The turns, the newest first.
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
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let turn = (row.get::<_, SessionId>(0)?, row.get::<_, TurnId>(1)?);
        if found.last() != Some(&turn)
            && (letters(row.get_ref(2)?.as_str()?).contains(wanted)
                || letters(&texts_of_calls(row.get_ref(3)?.as_str()?)).contains(wanted))
        {
            found.push(turn);
        }
    }
    Ok(found)
}

/// All texts in the arguments of calls: a message, a question, a proposal.
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
        serde_json::Value::Array(values) => values.iter().for_each(|it| push_texts(texts, it)),
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|it| push_texts(texts, it));
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

/// A text without its markup, which platforms show in their own way.
fn letters(text: &str) -> String {
    text.chars().filter(|sign| sign.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
