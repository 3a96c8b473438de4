//! What was said in a place, searched: the log keeps it after the model sees only a summary of it, or
//! nothing any more.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, ToSql, params, params_from_iter};

use crate::provider::{COMPLETION, CONVERSE};
use crate::types::message::Address;
use crate::types::session::{SessionId, TurnId};
use crate::types::untrusted;

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
    /// It may retell what strangers wrote: so much of its conversation was read by then.
    pub by_others: bool,
}

/// The first turn of a session up to a turn with something that strangers wrote: in a result that was
/// wrapped, an answer with words of others, what was quoted, overheard or handed on; or in calls that are
/// forgotten since.
const FIRST_BY_OTHERS: &str = "
    SELECT e.id FROM turns e WHERE e.session = ?5 AND e.id <= ?6 AND (
        e.read_others
        OR EXISTS (SELECT 1 FROM calls c WHERE c.turn = e.id
                   AND (instr(c.output, ?1) = 1 OR instr(c.output, ?2) > 0))
        OR EXISTS (SELECT 1 FROM steps q WHERE q.turn = e.id AND
                   (instr(q.heard, ?2) > 0 OR instr(q.heard, ?3) > 0 OR instr(q.heard, ?4) > 0)))
    ORDER BY e.id LIMIT 1";

/// What was said in a step: its text, or the calls that have ended its turn.
fn said() -> String {
    format!(
        "p.text || ifnull((SELECT group_concat(c.output, char(10)) FROM calls c
         WHERE c.turn = p.turn AND c.step = p.seq AND c.state = 'done'
         AND c.tool IN ('{COMPLETION}', '{CONVERSE}')), '')"
    )
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
    let holds = "AND ifnull(heard, '') || char(10) || said LIKE ? ESCAPE '\\' ".repeat(words.len());
    let said = said();
    let mut rows = store.prepare(&format!(
        "SELECT t.started, t.session, t.id, p.heard, {said} AS said
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
    let found = rows.query_map(params_from_iter(values), |row| {
        Ok(Found {
            at: DateTime::from_timestamp_millis(row.get(0)?).unwrap_or_default(),
            session: SessionId(row.get(1)?),
            turn: TurnId(row.get(2)?),
            heard: row.get(3)?,
            said: row.get(4)?,
            by_others: false,
        })
    })?;
    let mut found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    mark_by_others(store, &mut found)?;
    Ok(found)
}

/// Finds out which of what was found, newest first, may retell what strangers wrote: once for each session.
fn mark_by_others(store: &Connection, found: &mut [Found]) -> rusqlite::Result<()> {
    let mut first_by_others = BTreeMap::new();
    let mut look = store.prepare(FIRST_BY_OTHERS)?;
    let [begins, words, background, has_read] =
        [untrusted::BEGINS, untrusted::OTHERS_WORDS, untrusted::BACKGROUND, untrusted::HAS_READ];
    for Found { session, turn, by_others, .. } in found {
        let first = match first_by_others.get(session) {
            Some(first) => *first,
            None => {
                let marks = params![begins, words, background, has_read, session.0, turn.0];
                let first = look.query_row(marks, |row| row.get(0).map(TurnId)).optional()?;
                first_by_others.insert(*session, first);
                first
            }
        };
        *by_others = first.is_some_and(|first| first <= *turn);
    }
    Ok(())
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
