//! Sources in the store: the spans of what was heard in a step, the sources of a call's outcome, and those
//! of calls that are forgotten since. Rows without them were written by a former version.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use crate::conversation::former;
use crate::store::Json;
use crate::types::message::SenderId;
use crate::types::origin::{Origin, TaskId};
use crate::types::session::{SessionId, TurnId};
use crate::types::source::{self, Parts, Source, Span};

/// What was heard in a step, in a turn of somebody's.
pub fn heard(
    text: Option<String>,
    spans: Option<&str>,
    origin: &Origin,
    by: &SenderId,
) -> Option<Parts> {
    let text = text?;
    let Some(spans) = spans else { return Some(former::heard(&text, author(origin, by))) };
    Some(match serde_json::from_str::<Vec<Span>>(spans) {
        Ok(spans) => Parts::restored(text, spans),
        // A newer version wrote them.
        Err(_) => Parts::of(Source::Unknown, text),
    })
}

/// The source of what was heard in a turn of somebody's, where a former version did not keep it.
fn author(origin: &Origin, by: &SenderId) -> Source {
    match origin {
        Origin::Chat(at) => Source::Person { channel: at.channel.clone(), id: by.clone() },
        Origin::Task { task: TaskId { kind, number }, .. } => {
            Source::Task { kind: *kind, number: Some(*number), read_others: false }
        }
    }
}

/// The sources of a call's outcome, from its row.
pub fn of_call(tool: &str, output: Option<&str>, sources: Option<&str>) -> Vec<Source> {
    match (sources, output) {
        (Some(sources), _) => {
            serde_json::from_str(sources).unwrap_or_else(|_| vec![Source::Unknown])
        }
        (None, Some(output)) => former::outcome(tool, output),
        (None, None) => Vec::new(),
    }
}

/// Keeps the sources of a call with its turn, as the call is about to be forgotten.
pub fn keep_with_turn(
    store: &Connection,
    turn: TurnId,
    forgotten: &[Source],
) -> rusqlite::Result<()> {
    let kept: Option<String> = store
        .prepare_cached("SELECT sources FROM turns WHERE id = ?")?
        .query_row([turn], |row| row.get(0))
        .optional()?
        .flatten();
    let mut sources = read(kept.as_deref());
    let before = sources.len();
    forgotten.iter().for_each(|forgotten| source::add(&mut sources, forgotten));
    if sources.len() > before {
        store
            .prepare_cached("UPDATE turns SET sources = ? WHERE id = ?")?
            .execute(params![Json(&sources), turn])?;
    }
    Ok(())
}

/// Those of a column that is empty in rows of former versions.
pub fn read(sources: Option<&str>) -> Vec<Source> {
    let Some(sources) = sources else { return Vec::new() };
    serde_json::from_str(sources).unwrap_or_else(|_| vec![Source::Unknown])
}

/// Each source of a conversation up to a turn, with the turn in which it occurs first.
pub fn up_to(
    store: &Connection,
    session: SessionId,
    last: TurnId,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let mut found = of_turns(store, session, last)?;
    found.extend(of_steps(store, session, last)?);
    found.extend(of_calls(store, session, last)?);
    found.sort_by_key(|(turn, _)| *turn);
    let mut known = BTreeSet::new();
    found.retain(|(_, source)| known.insert(source.clone()));
    Ok(found)
}

fn of_turns(
    store: &Connection,
    session: SessionId,
    last: TurnId,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let mut rows = store.prepare_cached(
        "SELECT id, sources, read_others FROM turns
         WHERE session = ? AND id <= ? AND (sources IS NOT NULL OR read_others)",
    )?;
    let mut rows = rows.query(params![session, last])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let turn = row.get(0)?;
        let sources = read(row.get_ref(1)?.as_str_or_null()?);
        found.extend(sources.into_iter().map(|source| (turn, source)));
        // A former version has forgotten calls that had read what others wrote.
        if row.get(2)? {
            found.push((turn, Source::Unknown));
        }
    }
    Ok(found)
}

fn of_steps(
    store: &Connection,
    session: SessionId,
    last: TurnId,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let mut rows = store.prepare_cached(
        "SELECT p.turn, p.sources, iif(p.sources IS NULL, p.heard, '') FROM steps p
         WHERE p.turn IN (SELECT id FROM turns WHERE session = ? AND id <= ?) AND p.heard IS NOT NULL",
    )?;
    let mut rows = rows.query(params![session, last])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let turn = row.get(0)?;
        let sources = match row.get_ref(1)?.as_str_or_null()? {
            None => former::heard(row.get_ref(2)?.as_str()?, Source::Program).sources(),
            Some(spans) => match serde_json::from_str::<Vec<Span>>(spans) {
                Ok(spans) => spans.into_iter().map(|Span(source, _)| source).collect(),
                Err(_) => vec![Source::Unknown],
            },
        };
        found.extend(sources.into_iter().map(|source| (turn, source)));
    }
    Ok(found)
}

fn of_calls(
    store: &Connection,
    session: SessionId,
    last: TurnId,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let mut rows = store.prepare_cached(
        "SELECT c.turn, c.tool, c.sources, iif(c.sources IS NULL, c.output, '') FROM calls c
         WHERE c.turn IN (SELECT id FROM turns WHERE session = ? AND id <= ?) AND c.output IS NOT NULL",
    )?;
    let mut rows = rows.query(params![session, last])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let turn = row.get(0)?;
        let (tool, output) = (row.get_ref(1)?.as_str()?, row.get_ref(3)?.as_str_or_null()?);
        let sources = of_call(tool, output, row.get_ref(2)?.as_str_or_null()?);
        found.extend(sources.into_iter().map(|source| (turn, source)));
    }
    Ok(found)
}
