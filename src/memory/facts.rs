//! Facts about a person or a group that people asked the bot to remember, or that it noticed by itself. The most used
//! ones are in the prompt (active); the others (expired) are found by a search or by a related message.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};

use super::recall::{self, RecallKey, RecallKind, RecallText};
use crate::store::{Json, LenientJson, Time, integer_columns};
use crate::types::source::Source;
use crate::types::words::words;

/// Maximum length of a fact, in characters: a sentence or two. Longer text belongs in a file.
pub const FACT_CHARS_MAX: usize = 500;

/// Maximum number of facts of one account or group. People remove some before they reach it.
const FACTS_MAX: i64 = 1_000;

/// Weight of a day of age, relative to one access.
const DAY: f64 = 0.1;

/// The id of a fact, which people see as `#3`.
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

/// The reason why a fact is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactOrigin {
    /// Its person asked for it.
    Told,
    /// The bot noticed it in trusted content.
    Noticed,
    /// The bot noticed it in untrusted content, and its person has not decided yet.
    Offered,
    /// Its person has accepted an offered fact.
    Kept,
}

words!(FactOrigin { Told = "told", Noticed = "noticed", Offered = "offered", Kept = "kept" });

/// The state of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactStatus {
    /// In the prompt.
    Active,
    /// Not in the prompt, but found by a search.
    Expired,
    /// No longer true. A search finds it, marked as former.
    Former,
    /// Waits for its person's decision, and is not in prompts.
    Offered,
}

words!(FactStatus {
    Active = "active",
    Expired = "expired",
    Former = "former",
    Offered = "offered",
});

/// Stores enums as the words of their variants.
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
    /// The sources of all inputs that it was derived from.
    pub sources: Vec<Source>,
    pub made: DateTime<Utc>,
    pub accesses: u32,
    /// Time at which it stopped being true.
    pub ended: Option<DateTime<Utc>>,
}

impl Fact {
    /// Returns the sources that decide if it is trusted. A fact that its person accepted counts as memory.
    pub fn deciding_sources(&self) -> Vec<Source> {
        match self.origin {
            FactOrigin::Kept => vec![Source::Memory],
            FactOrigin::Told | FactOrigin::Noticed | FactOrigin::Offered => self.sources.clone(),
        }
    }

    /// Returns it for scripts, with days in `zone`.
    pub fn listing(&self, zone: Tz) -> Value {
        let day = |at: DateTime<Utc>| at.with_timezone(&zone).format("%Y-%m-%d").to_string();
        json!({
            "number": self.id.0, "kind": self.kind.as_str(), "text": self.text, "made": day(self.made),
            "status": self.status.as_str(), "origin": self.origin.as_str(), "accesses": self.accesses,
            "sources": self.sources, "ended": self.ended.map(day),
        })
    }

    /// Returns true if it is currently true, as far as is known.
    pub fn holds(&self) -> bool {
        matches!(self.status, FactStatus::Active | FactStatus::Expired)
    }
}

/// A new fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFact {
    pub kind: FactKind,
    /// One line.
    pub text: String,
    pub origin: FactOrigin,
    pub sources: Vec<Source>,
}

/// The outcome of storing a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepOutcome {
    New(FactId),
    /// There is one with the same text.
    Known(FactId),
    /// There are too many facts.
    Full,
}

/// Returns the index key of the facts of a person or group.
pub fn index_key(key: &RecallKey) -> RecallKey {
    RecallKey::of_facts(key)
}

/// Stores a fact under the first of these keys, which belong to one person or group. If the prompt would have more than
/// `active_max` facts, the least used one expires.
pub fn keep(
    store: &Connection,
    keys: &[RecallKey],
    new: &NewFact,
    active_max: usize,
    now: DateTime<Utc>,
) -> rusqlite::Result<KeepOutcome> {
    let Some(key) = keys.first() else { return Ok(KeepOutcome::Full) };
    let mut known = list(store, keys)?;
    known.retain(|fact| fact.status != FactStatus::Former);
    if let Some(same) =
        known.iter().find(|fact| fact.text.to_lowercase() == new.text.to_lowercase())
    {
        match (same.status, new.origin) {
            (FactStatus::Offered, FactOrigin::Told) => accept(store, same.id, now)?,
            (FactStatus::Offered, _) => {}
            _ => count_use(store, &[same.id], now)?,
        }
        expire(store, keys, active_max, now)?;
        return Ok(KeepOutcome::Known(same.id));
    }
    let count = store
        .prepare_cached("SELECT count(*) FROM facts WHERE who = ?")?
        .query_row([key], |row| row.get::<_, i64>(0))?;
    if count >= FACTS_MAX {
        return Ok(KeepOutcome::Full);
    }
    store
        .prepare_cached(
            "INSERT INTO facts (who, kind, text, status, origin, sources, made, used)
             VALUES (?1, ?2, ?3, 'active', ?4, ?5, ?6, ?6)",
        )?
        .execute(params![key, new.kind, new.text, new.origin, Json(&new.sources), Time(now)])?;
    let id = FactId(store.last_insert_rowid());
    let (fact_key, text) = (index_key(key), new.text.as_str());
    let kind = RecallKind::Fact;
    recall::put(store, &RecallText { key: &fact_key, kind, source: id.0, at: now, text })?;
    expire(store, keys, active_max, now)?;
    Ok(KeepOutcome::New(id))
}

/// Replaces the text, origin and sources of a fact. The former text stays as a former fact.
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
    mark_former(store, &former, Some(fact.id), now)?;
    store
        .prepare_cached(
            "UPDATE facts SET text = ?2, sources = ?3, origin = ?4, status = 'active', made = ?5, used = ?5
             WHERE id = ?1",
        )?
        .execute(params![fact.id, new.text, Json(&new.sources), new.origin, Time(now)])?;
    index(store, fact, &new.text, now)
}

/// Marks a fact as former. A search finds it with the day on which it ended.
pub fn mark_former(
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

/// Accepts an offered fact on behalf of its person, and makes it active.
pub fn accept(store: &Connection, fact: FactId, now: DateTime<Utc>) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE facts SET origin = 'kept', status = 'active', used = ?
             WHERE id = ? AND origin = 'offered'",
        )?
        .execute(params![Time(now), fact])
        .map(drop)
}

/// Counts a use of facts that are related to a message. Expired ones become active again.
pub fn count_use(store: &Connection, facts: &[FactId], now: DateTime<Utc>) -> rusqlite::Result<()> {
    let mut update = store.prepare_cached(
        "UPDATE facts SET accesses = accesses + 1, used = ?, status = 'active' WHERE id = ?",
    )?;
    facts.iter().try_for_each(|id| update.execute(params![Time(now), id]).map(drop))
}

/// Counts a use of active facts of these keys on which an answer is based, unless they were counted since its turn began.
pub fn count_marked_use(
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
    let known = list(store, keys)?;
    known
        .iter()
        .filter(|fact| is_marked(fact))
        .try_for_each(|fact| count.execute(params![fact.id, Time(now), Time(started)]).map(drop))
}

/// Expires the active facts with the lowest scores until at most `active_max` are left. The score is the number of
/// accesses minus a tenth for each day of age.
pub fn expire(
    store: &Connection,
    keys: &[RecallKey],
    active_max: usize,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let mut active = list(store, keys)?;
    active.retain(|fact| fact.status == FactStatus::Active);
    active.sort_by(|one, other| {
        let scores = score(other, now).total_cmp(&score(one, now));
        scores.then_with(|| other.id.cmp(&one.id))
    });
    let mut expire = store.prepare_cached("UPDATE facts SET status = 'expired' WHERE id = ?")?;
    active.iter().skip(active_max).try_for_each(|fact| expire.execute([fact.id]).map(drop))
}

/// Returns the number of accesses minus a tenth for each day of age.
pub fn score(fact: &Fact, now: DateTime<Utc>) -> f64 {
    let hours = i32::try_from((now - fact.made).num_hours()).unwrap_or(i32::MAX);
    f64::from(fact.accesses) - DAY * f64::from(hours) / 24.0
}

/// Returns all facts of these keys, oldest first.
pub fn list(store: &Connection, keys: &[RecallKey]) -> rusqlite::Result<Vec<Fact>> {
    let mut rows = store.prepare_cached(
        "SELECT id, who, kind, text, status, sources, made, accesses, origin, ended FROM facts WHERE who = ?",
    )?;
    let mut facts = Vec::new();
    for key in keys {
        for fact in rows.query_map([key], read_fact)? {
            facts.push(fact?);
        }
    }
    facts.sort_by_key(|fact| fact.id);
    Ok(facts)
}

/// Returns the facts with these ids, which were found in the index.
pub fn find_by_ids(store: &Connection, ids: &[FactId]) -> rusqlite::Result<BTreeMap<FactId, Fact>> {
    let mut rows = store.prepare_cached(
        "SELECT id, who, kind, text, status, sources, made, accesses, origin, ended FROM facts WHERE id = ?",
    )?;
    let mut facts = BTreeMap::new();
    for id in ids {
        facts.extend(rows.query_row([id], read_fact).optional()?.map(|fact| (fact.id, fact)));
    }
    Ok(facts)
}

/// Returns the former facts that a fact has replaced.
pub fn former_of(store: &Connection, fact: FactId) -> rusqlite::Result<Vec<FactId>> {
    let mut rows = store.prepare_cached("SELECT id FROM facts WHERE replaced_by = ?")?;
    rows.query_map([fact], |row| row.get(0))?.collect()
}

/// Removes a fact from the table and the index.
pub fn remove(store: &Connection, fact: FactId) -> rusqlite::Result<()> {
    recall::remove(store, RecallKind::Fact, fact.0)?;
    store.prepare_cached("DELETE FROM facts WHERE id = ?")?.execute([fact]).map(drop)
}

fn read_fact(row: &Row<'_>) -> rusqlite::Result<Fact> {
    let (origin, ended) = (row.get(8)?, row.get::<_, Option<Time>>(9)?);
    let status = match (origin, ended) {
        (_, Some(_)) => FactStatus::Former,
        (FactOrigin::Offered, None) => FactStatus::Offered,
        (FactOrigin::Told | FactOrigin::Noticed | FactOrigin::Kept, None) => row.get(4)?,
    };
    Ok(Fact {
        id: row.get(0)?,
        key: row.get(1)?,
        // An unknown kind of a newer version becomes the default.
        kind: FactKind::parse(row.get_ref(2)?.as_str()?).unwrap_or_default(),
        text: row.get(3)?,
        status,
        origin,
        // Unreadable sources are of a newer version, and count as unknown.
        sources: row.get::<_, LenientJson<_>>(5)?.0.unwrap_or_else(|| vec![Source::Unknown]),
        made: row.get::<_, Time>(6)?.0,
        accesses: row.get(7)?,
        ended: ended.map(|ended| ended.0),
    })
}
