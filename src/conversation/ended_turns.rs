//! Turns that have ended and their texts, for work that reads conversations afterwards.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::bus::journal::read_address;
use crate::conversation::sources::{self, KeptSources};
use crate::memory::extraction::due::SeenTurn;
use crate::provider::{COMPLETION, CONVERSE};
use crate::store::{LenientJson, Time};
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::session::{SessionId, TurnId};
use crate::types::source::{Source, SourcedText};

/// Maximum number of turns in one read. Later ones are read after these.
pub const TURNS_READ_MAX: usize = 5_000;

/// Returns the turns above a floor, oldest first, up to [`TURNS_READ_MAX`].
pub fn turns_above(store: &Connection, floor: TurnId) -> rusqlite::Result<Vec<SeenTurn>> {
    let mut rows = store.prepare_cached(
        "SELECT t.id, t.session, iif(t.ending IS NULL, NULL, ifnull(t.ended, t.started)), s.closed IS NOT NULL,
             s.kind = 'chat' AND s.incognito IS NULL AND NOT t.silent AND NOT t.noted
         FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id > ? ORDER BY t.id LIMIT ?",
    )?;
    let limit = i64::try_from(TURNS_READ_MAX).expect("a small number");
    let turns = rows.query_map(params![floor, limit], |row| {
        Ok(SeenTurn {
            turn: row.get(0)?,
            session: row.get(1)?,
            ended: row.get::<_, Option<Time>>(2)?.map(|ended| ended.0),
            is_closed: row.get(3)?,
            is_said: row.get(4)?,
        })
    })?;
    turns.collect()
}

/// The texts of a part of a conversation.
pub struct ConversationExcerpt {
    pub at: Address,
    pub chat_kind: ChatKind,
    pub turns: Vec<ExcerptTurn>,
}

pub struct ExcerptTurn {
    pub turn: TurnId,
    pub sender: Sender,
    pub started: DateTime<Utc>,
    pub steps: Vec<ExcerptStep>,
}

#[derive(Default)]
pub struct ExcerptStep {
    pub input: Option<SourcedText>,
    /// The model's text, including texts of calls that address people.
    pub text: String,
    /// The results of all other calls.
    pub results: Vec<CallResultText>,
}

/// The result of a call with its sources.
pub struct CallResultText {
    pub tool: String,
    pub text: String,
    pub sources: Vec<Source>,
}

/// Returns the texts of the turns after `after`, up to `up_to`, that people began. None if their conversation was
/// deleted. Leaves out turns whose sender cannot be read.
pub fn read_excerpt(
    store: &Connection,
    session: SessionId,
    after: TurnId,
    up_to: TurnId,
) -> rusqlite::Result<Option<ConversationExcerpt>> {
    let session_row = store
        .prepare_cached("SELECT channel, chat, thread, chat_kind FROM sessions WHERE id = ?")?
        .query_row([session], |row| {
            // A chat of unknown kind counts as a group, so that nothing private spreads.
            let chat_kind = row.get::<_, LenientJson<_>>(3)?.0.unwrap_or(ChatKind::Group);
            Ok((read_address(row)?, chat_kind))
        })
        .optional()?;
    let Some((at, chat_kind)) = session_row else { return Ok(None) };
    let mut rows = store.prepare_cached(
        "SELECT id, sender, started FROM turns
         WHERE session = ? AND id > ? AND id <= ? AND ending IS NOT NULL AND NOT silent AND NOT noted ORDER BY id",
    )?;
    let mut rows = rows.query(params![session, after, up_to])?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(sender) = row.get::<_, LenientJson<Sender>>(1)?.0 else { continue };
        let turn = row.get(0)?;
        let steps = steps(store, turn)?;
        turns.push(ExcerptTurn { turn, sender, started: row.get::<_, Time>(2)?.0, steps });
    }
    Ok(Some(ConversationExcerpt { at, chat_kind, turns }))
}

fn steps(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<ExcerptStep>> {
    let mut rows = store
        .prepare_cached("SELECT input, sources, text FROM steps WHERE turn = ? ORDER BY seq")?;
    let steps = rows.query_map([turn], |row| {
        let input = sources::input(row.get(0)?, row.get(1)?);
        Ok(ExcerptStep { input, text: row.get(2)?, results: Vec::new() })
    })?;
    let mut steps: Vec<_> = steps.collect::<rusqlite::Result<_>>()?;
    let mut rows = store.prepare_cached(
        "SELECT step, tool, output, sources FROM calls
         WHERE turn = ? AND output IS NOT NULL AND state = 'done' ORDER BY id",
    )?;
    let mut rows = rows.query([turn])?;
    while let Some(row) = rows.next()? {
        let Some(step) = steps.get_mut(row.get::<_, usize>(0)?) else { continue };
        let (tool, text) = (row.get_ref(1)?.as_str()?, row.get::<_, String>(2)?);
        if [COMPLETION, CONVERSE].contains(&tool) {
            step.text.push('\n');
            step.text.push_str(&text);
            continue;
        }
        let kept: KeptSources = row.get(3)?;
        let (tool, sources) = (tool.to_owned(), sources::of_call(true, kept));
        step.results.push(CallResultText { tool, text, sources });
    }
    Ok(steps)
}
