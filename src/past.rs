//! What was said in a place, searched: the log keeps it after the model sees only a summary of it, or
//! nothing any more.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::foreign;
use crate::message::Address;
use crate::provider::{COMPLETION, CONVERSE};
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
    /// It may retell what strangers wrote: so much of its conversation was read by then.
    pub by_others: bool,
}

/// Whether a turn `f.id` of `f.session` came after something that strangers wrote: in a result that was
/// wrapped, an answer with words of others, what was quoted, overheard or handed on; or in calls that are
/// forgotten since.
const BY_OTHERS: &str = "
    EXISTS (SELECT 1 FROM turns e WHERE e.session = f.session AND e.id <= f.id AND (
        e.read_others
        OR EXISTS (SELECT 1 FROM calls c WHERE c.turn = e.id
                   AND (instr(c.output, ?1) = 1 OR instr(c.output, ?2) > 0))
        OR EXISTS (SELECT 1 FROM steps q WHERE q.turn = e.id AND
                   (instr(q.heard, ?2) > 0 OR instr(q.heard, ?3) > 0 OR instr(q.heard, ?4) > 0))))";

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
        "SELECT f.started, f.session, f.id, f.heard, f.said, {BY_OTHERS} FROM (
             SELECT t.started, t.session, t.id, p.seq, p.heard, {said} AS said
             FROM sessions s JOIN turns t ON t.session = s.id JOIN steps p ON p.turn = t.id
             WHERE s.channel = ?5 AND s.chat = ?6 AND s.thread IS ?7 AND NOT t.silent {holds}
             ORDER BY t.id DESC, p.seq DESC LIMIT ?
         ) f ORDER BY f.id DESC, f.seq DESC"
    ))?;
    let (channel, chat) = (at.channel.as_str(), at.chat.as_str());
    let thread = at.thread.as_ref().map(|thread| thread.as_str());
    let patterns: Vec<String> = words.iter().map(|word| pattern(word)).collect();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let marks = [foreign::BEGINS, foreign::OTHERS_WORDS, foreign::BACKGROUND, foreign::HAS_READ];
    let mut values: Vec<&dyn ToSql> = marks.iter().map(|mark| mark as &dyn ToSql).collect();
    values.extend([&channel as &dyn ToSql, &chat, &thread]);
    values.extend(patterns.iter().map(|pattern| pattern as &dyn ToSql));
    values.push(&limit);
    rows.query_map(params_from_iter(values), |row| {
        Ok(Found {
            at: DateTime::from_timestamp_millis(row.get(0)?).unwrap_or_default(),
            session: SessionId(row.get(1)?),
            turn: TurnId(row.get(2)?),
            heard: row.get(3)?,
            said: row.get(4)?,
            by_others: row.get(5)?,
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
