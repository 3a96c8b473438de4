//! Sources in the store: the spans of a step's input, the sources of a call's outcome, and those of deleted calls. Rows
//! of versions that stored none, and unreadable ones of a newer version, count as untrusted.

use std::collections::BTreeSet;

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::{Json, LenientJson};
use crate::types::session::{SessionId, TurnId};
use crate::types::source::{self, Source, SourceSpan, SourcedText};

/// Sources in a column. None in rows of former versions. Unreadable ones are of a newer version, and count as
/// unknown.
pub struct KeptSources(pub Option<Vec<Source>>);

impl FromSql for KeptSources {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let kept = Option::<LenientJson<Vec<Source>>>::column_result(value)?;
        Ok(Self(kept.map(|kept| kept.0.unwrap_or_else(|| vec![Source::Unknown]))))
    }
}

/// Returns the input of a step. Its source is unknown if there are no spans.
pub fn input(
    text: Option<String>,
    spans: Option<LenientJson<Vec<SourceSpan>>>,
) -> Option<SourcedText> {
    let text = text?;
    Some(match spans.and_then(|spans| spans.0) {
        Some(spans) => SourcedText::from_stored(text, spans),
        None => SourcedText::of(Source::Unknown, text),
    })
}

/// Returns the sources of a call from its row. A call without an outcome has none.
pub fn of_call(has_outcome: bool, sources: KeptSources) -> Vec<Source> {
    let unknown = || if has_outcome { vec![Source::Unknown] } else { Vec::new() };
    sources.0.unwrap_or_else(unknown)
}

/// Adds the sources of a call to its turn before the call is deleted.
pub fn keep_with_turn(
    store: &Connection,
    turn: TurnId,
    call_sources: &[Source],
) -> rusqlite::Result<()> {
    let kept = store
        .prepare_cached("SELECT sources FROM turns WHERE id = ?")?
        .query_row([turn], |row| row.get::<_, KeptSources>(0))
        .optional()?;
    let mut sources = kept.and_then(|kept| kept.0).unwrap_or_default();
    let count_before = sources.len();
    call_sources.iter().for_each(|source| source::add(&mut sources, source));
    if sources.len() > count_before {
        store
            .prepare_cached("UPDATE turns SET sources = ? WHERE id = ?")?
            .execute(params![Json(&sources), turn])?;
    }
    Ok(())
}

/// Returns each source of a conversation up to a turn, with the turn in which it occurs first.
pub fn up_to(
    store: &Connection,
    session: SessionId,
    last: TurnId,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let mut sources = of_turns(store, session, last)?;
    sources.extend(of_steps(store, session, last)?);
    sources.extend(of_calls(store, session, last)?);
    sources.sort_by_key(|(turn, _)| *turn);
    let mut known = BTreeSet::new();
    sources.iter_mut().for_each(|(_, source)| *source = source.without_results().into_owned());
    sources.retain(|(_, source)| known.insert(source.clone()));
    Ok(sources)
}

fn of_turns(
    store: &Connection,
    session: SessionId,
    last: TurnId,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let select = "SELECT id, sources, read_others FROM turns
         WHERE session = ? AND id <= ? AND (sources IS NOT NULL OR read_others)";
    read_sources(store, select, session, last, |row| {
        let KeptSources(sources) = row.get(1)?;
        let mut sources = sources.unwrap_or_default();
        // A former version has deleted calls that had read untrusted content.
        if row.get(2)? {
            sources.push(Source::Unknown);
        }
        Ok(sources)
    })
}

fn of_steps(
    store: &Connection,
    session: SessionId,
    last: TurnId,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let select = "SELECT p.turn, p.sources FROM steps p
         WHERE p.turn IN (SELECT id FROM turns WHERE session = ? AND id <= ?) AND p.input IS NOT NULL";
    read_sources(store, select, session, last, |row| {
        let spans = row.get::<_, Option<LenientJson<Vec<SourceSpan>>>>(1)?;
        Ok(match spans.and_then(|spans| spans.0) {
            Some(spans) => spans.into_iter().map(|SourceSpan(source, _)| source).collect(),
            None => vec![Source::Unknown],
        })
    })
}

fn of_calls(
    store: &Connection,
    session: SessionId,
    last: TurnId,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let select = "SELECT c.turn, c.sources FROM calls c
         WHERE c.turn IN (SELECT id FROM turns WHERE session = ? AND id <= ?) AND c.output IS NOT NULL";
    read_sources(store, select, session, last, |row| Ok(of_call(true, row.get(1)?)))
}

/// Reads rows that begin with a turn. `sources_of` reads the other columns.
fn read_sources(
    store: &Connection,
    select: &str,
    session: SessionId,
    last: TurnId,
    sources_of: impl Fn(&Row<'_>) -> rusqlite::Result<Vec<Source>>,
) -> rusqlite::Result<Vec<(TurnId, Source)>> {
    let mut rows = store.prepare_cached(select)?;
    let mut rows = rows.query(params![session, last])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let turn = row.get(0)?;
        found.extend(sources_of(row)?.into_iter().map(|source| (turn, source)));
    }
    Ok(found)
}
