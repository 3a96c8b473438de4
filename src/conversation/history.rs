//! What was said in a place, searched: the log keeps it after the model sees only a summary of it, or
//! nothing any more.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::conversation::sources;
use crate::provider::{COMPLETION, CONVERSE};
use crate::store::Time;
use crate::types::message::Address;
use crate::types::session::{SessionId, TurnId};
use crate::types::source::Source;

/// Words that are looked for at once; each is a look at every text.
pub const WORDS_MAX: usize = 8;

/// A part of a step in which all words were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryMatch {
    pub at: DateTime<Utc>,
    pub session: SessionId,
    pub turn: TurnId,
    /// What was said to the bot, with what the program wrote around it.
    pub input: Option<String>,
    pub said: String,
    /// The sources of all that the model had been shown in that conversation by then, which it may retell.
    pub sources: Vec<Source>,
}

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
) -> rusqlite::Result<Vec<HistoryMatch>> {
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
        Ok(HistoryMatch {
            at: row.get::<_, Time>(0)?.0,
            session: row.get(1)?,
            turn: row.get(2)?,
            input: row.get(3)?,
            said: row.get(4)?,
            sources: Vec::new(),
        })
    })?;
    let mut found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    add_sources(store, &mut found)?;
    Ok(found)
}

/// Adds the sources of what each was written from; they are looked up once for each session.
fn add_sources(store: &Connection, found: &mut [HistoryMatch]) -> rusqlite::Result<()> {
    let mut of_sessions = BTreeMap::new();
    // The newest come first: what was read up to them is read up to all.
    for HistoryMatch { session, turn, sources, .. } in found {
        let all = match of_sessions.entry(*session) {
            Entry::Occupied(all) => all.into_mut(),
            Entry::Vacant(none) => none.insert(sources::up_to(store, *session, *turn)?),
        };
        let by_then = all.iter().filter(|(first, _)| first <= turn);
        *sources = by_then.map(|(_, source)| source.clone()).collect();
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
