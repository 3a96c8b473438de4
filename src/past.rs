//! What was said in a place, searched: the log keeps it after the model sees only a summary of it, or
//! nothing any more.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::message::Address;
use crate::session::{SessionId, TurnId};

/// Words that are looked for at once; each is a look at every text.
pub const WORDS_MAX: usize = 8;

/// A part of a step in which all words were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub at: DateTime<Utc>,
    pub session: SessionId,
    pub turn: TurnId,
    /// What was said to the bot, with what the program wrote around it.
    pub heard: Option<String>,
    pub said: String,
}

/// The newest steps of any conversation in a place in which all `words` occur, in any case (of letters in
/// ASCII); not those of turns in which the program asked for notes.
pub fn search(
    store: &Connection,
    at: &Address,
    words: &[String],
    limit: usize,
) -> rusqlite::Result<Vec<Found>> {
    let words = &words[..words.len().min(WORDS_MAX)];
    let holds =
        "AND ifnull(p.heard, '') || char(10) || p.text LIKE ? ESCAPE '\\' ".repeat(words.len());
    let mut rows = store.prepare(&format!(
        "SELECT t.started, t.session, t.id, p.heard, p.text
         FROM sessions s JOIN turns t ON t.session = s.id JOIN steps p ON p.turn = t.id
         WHERE s.channel = ? AND s.chat = ? AND s.thread IS ? AND NOT t.silent {holds}
         ORDER BY t.id DESC, p.seq DESC LIMIT ?"
    ))?;
    let (channel, chat) = (at.channel.as_str(), at.chat.as_str());
    let thread = at.thread.as_ref().map(|thread| thread.as_str());
    let patterns: Vec<String> = words.iter().map(|word| pattern(word)).collect();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values: Vec<&dyn ToSql> = vec![&channel, &chat, &thread];
    values.extend(patterns.iter().map(|pattern| pattern as &dyn ToSql));
    values.push(&limit);
    rows.query_map(params_from_iter(values), |row| {
        Ok(Found {
            at: DateTime::from_timestamp_millis(row.get(0)?).unwrap_or_default(),
            session: SessionId(row.get(1)?),
            turn: TurnId(row.get(2)?),
            heard: row.get(3)?,
            said: row.get(4)?,
        })
    })?
    .collect()
}

/// For LIKE, with its own signs taken as they are.
fn pattern(word: &str) -> String {
    let mut pattern = String::from("%");
    for sign in word.chars() {
        if "%_\\".contains(sign) {
            pattern.push('\\');
        }
        pattern.push(sign);
    }
    pattern.push('%');
    pattern
}
