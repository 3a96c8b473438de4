//! Facts that people asked the bot to remember, or that it noticed by itself: of one person, or of a group. The most
//! used ones stand in the prompt; the others make way, and are found by a search or by a message that has to do with
//! them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::recall::{self, RecallKey, RecallKind, RecallText};
use crate::store::{Json, LenientJson, Time, integer_columns};
use crate::types::source::Source;
use crate::types::words::words;

/// Maximum length of a fact, in characters: a sentence or two. Longer text belongs in a file.
pub const FACT_CHARS_MAX: usize = 500;

/// Facts of one account or group. People forget some before they reach it.
const FACTS_MAX: i64 = 1_000;

/// Weight of a day of age beside one access.
const DAY: f64 = 0.1;

/// The id of a fact, by which people know it: `#3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FactId(pub i64);

integer_columns!(FactId);

/// The subject of a fact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKind {
    You,
    People,
    Wish,
    Event,
    #[default]
    Other,
}

words!(FactKind { You = "you", People = "people", Wish = "wish", Event = "event", Other = "other" });

/// The way in which a fact came to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactOrigin {
    /// Its person asked for it.
    Told,
    /// The bot noticed it in trusted content.
    Noticed,
    /// The bot noticed it in untrusted content, and its person has not decided about it.
    Offered,
    /// Its person has kept what was offered.
    Kept,
}

words!(FactOrigin { Told = "told", Noticed = "noticed", Offered = "offered", Kept = "kept" });

/// Where a fact stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactStatus {
    /// In the prompt.
    Active,
    /// Found by a search.
    Expired,
    /// It is not true any more, and found by a search as such.
    Former,
    /// It waits for its person, and stays out of prompts.
    Offered,
}

words!(FactStatus {
    Active = "active",
    Expired = "expired",
    Former = "former",
    Offered = "offered",
});

/// Stores enums by their words.
macro_rules! word_columns {
    ($($name:ty),+) => {$(
        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Self::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
            }
        }
    )+};
}
word_columns!(FactKind, FactStatus, FactOrigin);

/// A fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    pub id: FactId,
    pub key: RecallKey,
    pub kind: FactKind,
    pub text: String,
    pub status: FactStatus,
    pub origin: FactOrigin,
    /// All inputs that it was made from.
    pub sources: Vec<Source>,
    pub made: DateTime<Utc>,
    pub accesses: u32,
    /// When it stopped being true.
    pub ended: Option<DateTime<Utc>>,
}

impl Fact {
    /// Returns the sources that decide if it is trusted: what its person has kept is a part of the memory.
    pub fn deciding_sources(&self) -> Vec<Source> {
        match self.origin {
            FactOrigin::Kept => vec![Source::Memory],
            FactOrigin::Told | FactOrigin::Noticed | FactOrigin::Offered => self.sources.clone(),
        }
    }

    /// Returns true if it is true by now, as far as its person has said.
    pub fn holds(&self) -> bool {
        matches!(self.status, FactStatus::Active | FactStatus::Expired)
    }
}

/// A fact to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFact {
    pub kind: FactKind,
    /// One line.
    pub text: String,
    pub origin: FactOrigin,
    pub sources: Vec<Source>,
}

/// The outcome of keeping a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    New(FactId),
    /// There is one with the same words.
    Known(FactId),
    /// There are too many.
    Full,
}

/// The key under which the facts of a person or group are found.
pub fn index_key(key: &RecallKey) -> RecallKey {
    RecallKey::of_facts(key)
}

/// Keeps a fact of the first of these keys, which are one person's or a group's. The one that is used least makes way
/// if more than `active_max` would stand in the prompt.
pub fn keep(
    store: &Connection,
    keys: &[RecallKey],
    new: &NewFact,
    active_max: usize,
    now: DateTime<Utc>,
) -> rusqlite::Result<Kept> {
    let Some(key) = keys.first() else { return Ok(Kept::Full) };
    let mut known = of(store, keys)?;
    known.retain(|fact| fact.status != FactStatus::Former);
    if let Some(same) = known.iter().find(|it| it.text.to_lowercase() == new.text.to_lowercase()) {
        match (same.status, new.origin) {
            (FactStatus::Offered, FactOrigin::Told) => accept(store, same.id, now)?,
            (FactStatus::Offered, _) => {}
            _ => use_now(store, &[same.id], now)?,
        }
        expire(store, keys, active_max, now)?;
        return Ok(Kept::Known(same.id));
    }
    let count = store
        .prepare_cached("SELECT count(*) FROM facts WHERE who = ?")?
        .query_row([key], |row| row.get::<_, i64>(0))?;
    if count >= FACTS_MAX {
        return Ok(Kept::Full);
    }
    store
        .prepare_cached(
            "INSERT INTO facts (who, kind, text, status, origin, sources, made, used)
             VALUES (?1, ?2, ?3, 'active', ?4, ?5, ?6, ?6)",
        )?
        .execute(params![key, new.kind, new.text, new.origin, Json(&new.sources), Time(now)])?;
    let id = FactId(store.last_insert_rowid());
    let (found_by, text) = (index_key(key), new.text.as_str());
    let kind = RecallKind::Fact;
    recall::put(store, &RecallText { key: &found_by, kind, source: id.0, at: now, text })?;
    expire(store, keys, active_max, now)?;
    Ok(Kept::New(id))
}

/// Gives a fact new words, an origin and sources. The former words stay as history, as a fact of their own.
pub fn reword(
    store: &Connection,
    fact: &Fact,
    new: &NewFact,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT INTO facts (who, kind, text, status, origin, sources, made, used, accesses)
             SELECT who, kind, text, 'expired', origin, sources, made, used, accesses
             FROM facts WHERE id = ?",
        )?
        .execute([fact.id])?;
    let former = Fact { id: FactId(store.last_insert_rowid()), ..fact.clone() };
    end(store, &former, Some(fact.id), now)?;
    store
        .prepare_cached(
            "UPDATE facts SET text = ?2, sources = ?3, origin = ?4, status = 'active', made = ?5, used = ?5
             WHERE id = ?1",
        )?
        .execute(params![fact.id, new.text, Json(&new.sources), new.origin, Time(now)])?;
    index(store, fact, &new.text, now)
}

/// Keeps a fact as history. A search finds it with the day on which that was noticed.
pub fn end(
    store: &Connection,
    fact: &Fact,
    replaced_by: Option<FactId>,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE facts SET ended = ?, replaced_by = ? WHERE id = ?")?
        .execute(params![Time(now), replaced_by, fact.id])?;
    index(store, fact, &format!("{} (until {})", fact.text, now.format("%Y-%m-%d")), now)
}

fn index(store: &Connection, fact: &Fact, text: &str, at: DateTime<Utc>) -> rusqlite::Result<()> {
    let (key, kind) = (index_key(&fact.key), RecallKind::Fact);
    recall::put(store, &RecallText { key: &key, kind, source: fact.id.0, at, text })
}

/// Puts a fact into the prompt that was only offered: its person has kept it.
pub fn accept(store: &Connection, fact: FactId, now: DateTime<Utc>) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE facts SET origin = 'kept', status = 'active', used = ?
             WHERE id = ? AND origin = 'offered'",
        )?
        .execute(params![Time(now), fact])
        .map(drop)
}

/// Notes that a message had to do with facts. Those that had made way come back.
pub fn use_now(store: &Connection, facts: &[FactId], now: DateTime<Utc>) -> rusqlite::Result<()> {
    let mut note = store.prepare_cached(
        "UPDATE facts SET accesses = accesses + 1, used = ?, status = 'active' WHERE id = ?",
    )?;
    facts.iter().try_for_each(|id| note.execute(params![Time(now), id]).map(drop))
}

/// Counts facts in the prompt that an answer rests on, of these keys, unless they were counted since its turn started.
pub fn note_marked(
    store: &Connection,
    keys: &[RecallKey],
    marked: &[i64],
    started: DateTime<Utc>,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let mut count = store.prepare_cached(
        "UPDATE facts SET accesses = accesses + 1, used = ?2 WHERE id = ?1 AND used < ?3",
    )?;
    let is_marked = |fact: &Fact| fact.status == FactStatus::Active && marked.contains(&fact.id.0);
    let known = of(store, keys)?;
    known
        .iter()
        .filter(|fact| is_marked(fact))
        .try_for_each(|fact| count.execute(params![fact.id, Time(now), Time(started)]).map(drop))
}

/// Lets the facts with the lowest scores make way until at most `active_max` stand in the prompt. The score is the
/// number of accesses less a tenth for each day of age.
pub fn expire(
    store: &Connection,
    keys: &[RecallKey],
    active_max: usize,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let mut active = of(store, keys)?;
    active.retain(|fact| fact.status == FactStatus::Active);
    active.sort_by(|one, other| {
        let scores = score(other, now).total_cmp(&score(one, now));
        scores.then_with(|| other.id.cmp(&one.id))
    });
    let mut expire = store.prepare_cached("UPDATE facts SET status = 'expired' WHERE id = ?")?;
    active.iter().skip(active_max).try_for_each(|fact| expire.execute([fact.id]).map(drop))
}

/// Returns the number of accesses less a tenth for each day of age.
pub fn score(fact: &Fact, now: DateTime<Utc>) -> f64 {
    let hours = i32::try_from((now - fact.made).num_hours()).unwrap_or(i32::MAX);
    f64::from(fact.accesses) - DAY * f64::from(hours) / 24.0
}

/// Returns all facts of these keys, the oldest first.
pub fn of(store: &Connection, keys: &[RecallKey]) -> rusqlite::Result<Vec<Fact>> {
    let mut rows = store.prepare_cached(
        "SELECT id, who, kind, text, status, sources, made, accesses, origin, ended FROM facts WHERE who = ?",
    )?;
    let mut facts = Vec::new();
    for key in keys {
        for fact in rows.query_map([key], read)? {
            facts.push(fact?);
        }
    }
    facts.sort_by_key(|fact| fact.id);
    Ok(facts)
}

/// Returns facts that were found in the index, by their ids.
pub fn found(store: &Connection, ids: &[FactId]) -> rusqlite::Result<BTreeMap<FactId, Fact>> {
    let mut rows = store.prepare_cached(
        "SELECT id, who, kind, text, status, sources, made, accesses, origin, ended FROM facts WHERE id = ?",
    )?;
    let mut facts = BTreeMap::new();
    for id in ids {
        facts.extend(rows.query_row([id], read).optional()?.map(|fact| (fact.id, fact)));
    }
    Ok(facts)
}

/// Returns the former facts that a fact has replaced.
pub fn former_of(store: &Connection, fact: FactId) -> rusqlite::Result<Vec<FactId>> {
    let mut rows = store.prepare_cached("SELECT id FROM facts WHERE replaced_by = ?")?;
    rows.query_map([fact], |row| row.get(0))?.collect()
}

/// Removes a fact, also from the index.
pub fn remove(store: &Connection, fact: FactId) -> rusqlite::Result<()> {
    recall::remove(store, RecallKind::Fact, fact.0)?;
    store.prepare_cached("DELETE FROM facts WHERE id = ?")?.execute([fact]).map(drop)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Fact> {
    let (origin, ended) = (row.get(8)?, row.get::<_, Option<Time>>(9)?);
    let status = match (origin, ended) {
        (_, Some(_)) => FactStatus::Former,
        (FactOrigin::Offered, None) => FactStatus::Offered,
        (FactOrigin::Told | FactOrigin::Noticed | FactOrigin::Kept, None) => row.get(4)?,
    };
    Ok(Fact {
        id: row.get(0)?,
        key: row.get(1)?,
        // A kind of a newer version.
        kind: FactKind::parse(row.get_ref(2)?.as_str()?).unwrap_or_default(),
        text: row.get(3)?,
        status,
        origin,
        // Unreadable ones are of a newer version, and count as unknown.
        sources: row.get::<_, LenientJson<_>>(5)?.0.unwrap_or_else(|| vec![Source::Unknown]),
        made: row.get::<_, Time>(6)?.0,
        accesses: row.get(7)?,
        ended: ended.map(|ended| ended.0),
    })
}
