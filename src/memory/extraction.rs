//! Extraction of facts from conversations: stores which turns were read, and applies the facts that the model found to
//! those of the person or group. Not here: the model's request (`turn`).

pub mod answer;
pub mod due;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::facts::{self, Fact, FactId, FactOrigin, FactStatus, NewFact};
use super::recall::RecallKey;
use crate::store::Time;
use crate::types::session::{SessionId, TurnId};
use crate::types::source::{self, Source};
use answer::{ExtractedFacts, ExtractedText};

/// Maximum number of attempts at the same turns. A model that fails three times would fail again.
const ATTEMPTS_MAX: u32 = 3;

/// Maximum number of offered facts of one person or group. The oldest are removed.
const OFFERED_MAX: usize = 20;

/// Maximum number of former facts of one person or group. The oldest are removed.
const FORMER_MAX: usize = 200;

/// Maximum number of sources of one fact. Omitted ones are as trusted as the others.
const SOURCES_MAX: usize = 30;

/// The progress of reading a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMark {
    pub taken: TurnId,
    pub failures: u32,
    /// The time of the next attempt.
    pub next: Option<DateTime<Utc>>,
}

/// The progress of reading all conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadMarks {
    /// The turn up to which all turns were read.
    pub floor: TurnId,
    pub sessions: BTreeMap<SessionId, ReadMark>,
    /// A counter that changes when somebody has words forgotten.
    pub forgets: i64,
}

/// A range of turns of a conversation that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTurns {
    pub session: SessionId,
    /// The turn before the first one.
    pub after: TurnId,
    pub up_to: TurnId,
    /// The counter of [`ReadMarks`] when the turns were read.
    pub forgets: i64,
}

/// Facts that a model has found in a part of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFacts {
    pub facts: ExtractedFacts,
    /// The sources of all inputs of the call.
    pub sources: Vec<Source>,
}

/// All facts found in a range of turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The keys of the person or group, as for [`facts::keep`].
    pub keys: Vec<RecallKey>,
    pub trusted: FoundFacts,
    /// Facts from untrusted content, of which only new ones are used.
    pub untrusted: FoundFacts,
    /// Maximum number of facts in the prompt.
    pub active_max: usize,
}

/// The numbers of changed facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangedFacts {
    pub new: usize,
    pub updated: usize,
    pub removed: usize,
    pub offered: usize,
}

impl ChangedFacts {
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// Returns the progress of reading all conversations.
pub fn marks(store: &Connection) -> rusqlite::Result<ReadMarks> {
    let (floor, forgets) = store
        .prepare_cached("SELECT floor, forgets FROM extraction_state WHERE one = 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut rows =
        store.prepare_cached("SELECT session, taken, failures, next FROM extractions")?;
    let sessions = rows.query_map([], |row| {
        let next = row.get::<_, Option<Time>>(3)?.map(|next| next.0);
        Ok((row.get(0)?, ReadMark { taken: row.get(1)?, failures: row.get(2)?, next }))
    })?;
    Ok(ReadMarks { floor, sessions: sessions.collect::<rusqlite::Result<_>>()?, forgets })
}

/// Stores that all turns up to `floor` were read. Deletes marks of conversations that are not beyond it.
pub fn raise_floor(store: &Connection, floor: TurnId) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE extraction_state SET floor = max(floor, ?) WHERE one = 1")?
        .execute([floor])?;
    store.prepare_cached("DELETE FROM extractions WHERE taken <= ?")?.execute([floor]).map(drop)
}

/// Invalidates readings in progress, because somebody has words forgotten.
pub fn note_forgotten(store: &Connection) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE extraction_state SET forgets = forgets + 1 WHERE one = 1")?
        .execute([])
        .map(drop)
}

/// Applies findings once. None if the turns were read before, or words were forgotten meanwhile.
pub fn apply(
    store: &Connection,
    read: &ReadTurns,
    found: &Findings,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<ChangedFacts>> {
    if !mark_read(store, read)? {
        return Ok(None);
    }
    let mut change = FactChange { store, found, now, changed: ChangedFacts::default() };
    change.apply()?;
    Ok(Some(change.changed))
}

/// Stores that turns were read. Returns false if they were read before, or words were forgotten meanwhile.
pub fn mark_read(store: &Connection, read: &ReadTurns) -> rusqlite::Result<bool> {
    if !is_open(store, read)? {
        return Ok(false);
    }
    store
        .prepare_cached(
            "INSERT INTO extractions (session, taken) VALUES (?, ?)
             ON CONFLICT DO UPDATE SET taken = excluded.taken, failures = 0, next = NULL",
        )?
        .execute(params![read.session, read.up_to])?;
    Ok(true)
}

/// Stores a failed attempt, and the time of the next one. After the last attempt the turns are skipped.
pub fn record_failure(
    store: &Connection,
    read: &ReadTurns,
    next: DateTime<Utc>,
) -> rusqlite::Result<()> {
    if !is_open(store, read)? {
        return Ok(());
    }
    let failures = store
        .prepare_cached(
            "INSERT INTO extractions (session, taken, failures, next) VALUES (?, ?, 1, ?)
             ON CONFLICT DO UPDATE SET failures = failures + 1, next = excluded.next
             RETURNING failures",
        )?
        .query_row(params![read.session, read.after, Time(next)], |row| row.get::<_, u32>(0))?;
    if failures >= ATTEMPTS_MAX {
        mark_read(store, read)?;
    }
    Ok(())
}

/// Returns true if the turns are the next ones of their conversation, and no words were forgotten since.
fn is_open(store: &Connection, read: &ReadTurns) -> rusqlite::Result<bool> {
    let ReadMarks { floor, sessions, forgets } = marks(store)?;
    let taken = sessions.get(&read.session).map_or(floor, |mark| mark.taken.max(floor));
    Ok(taken <= read.after && read.after < read.up_to && forgets == read.forgets)
}

/// Applies findings to the facts of one person or group.
struct FactChange<'a> {
    store: &'a Connection,
    found: &'a Findings,
    now: DateTime<Utc>,
    changed: ChangedFacts,
}

impl FactChange<'_> {
    fn apply(&mut self) -> rusqlite::Result<()> {
        let known = facts::list(self.store, &self.found.keys)?;
        let current: BTreeMap<_, _> =
            known.into_iter().filter(Fact::holds).map(|fact| (fact.id, fact)).collect();
        // Each fact is changed once, even if the model names it twice.
        let mut unchanged: BTreeSet<FactId> = current.keys().copied().collect();
        let found = self.found;
        let FoundFacts { facts, sources } = &found.trusted;
        for (id, text) in &facts.updated {
            if unchanged.remove(id) {
                self.replace(&current[id], text, sources)?;
            }
        }
        for (ids, text) in &facts.merged {
            let ids: BTreeSet<_> =
                ids.iter().filter(|id| unchanged.contains(id)).copied().collect();
            let mut merged = ids.iter().map(|id| &current[id]);
            let (Some(first), true) = (merged.next(), ids.len() > 1) else { continue };
            let mut sources = sources.clone();
            for other in merged {
                other.sources.iter().for_each(|source| source::add(&mut sources, source));
                self.end(other, Some(first.id))?;
                self.changed.removed += 1;
            }
            self.replace(first, text, &sources)?;
            unchanged.retain(|id| !ids.contains(id));
        }
        for id in &facts.removed {
            if unchanged.remove(id) {
                self.end(&current[id], None)?;
                self.changed.removed += 1;
            }
        }
        for new in &facts.new {
            self.changed.new += self.keep(new, FactOrigin::Noticed, sources)?;
        }
        let FoundFacts { facts, sources } = &found.untrusted;
        for new in &facts.new {
            self.changed.offered += self.keep(new, FactOrigin::Offered, sources)?;
        }
        facts::expire(self.store, &self.found.keys, self.found.active_max, self.now)?;
        self.limit(FactStatus::Offered, OFFERED_MAX)?;
        self.limit(FactStatus::Former, FORMER_MAX)
    }

    /// Stores a new fact. Returns 0 if there is one with the same text, or there are too many.
    fn keep(
        &self,
        new: &ExtractedText,
        origin: FactOrigin,
        sources: &[Source],
    ) -> rusqlite::Result<usize> {
        let has_same_text = |fact: &Fact| fact.text.to_lowercase() == new.text.to_lowercase();
        let known = facts::list(self.store, &self.found.keys)?;
        if known.iter().any(|fact| fact.status != FactStatus::Former && has_same_text(fact)) {
            return Ok(0);
        }
        let sources = sources.iter().take(SOURCES_MAX).cloned().collect();
        let new = NewFact { kind: new.kind, text: new.text.clone(), origin, sources };
        let Findings { keys, active_max, .. } = self.found;
        let kept = facts::keep(self.store, keys, &new, *active_max, self.now)?;
        Ok(usize::from(matches!(kept, facts::KeepOutcome::New(_))))
    }

    /// Replaces the text of a fact. The former text stays as a former fact.
    fn replace(&mut self, fact: &Fact, new: &str, sources: &[Source]) -> rusqlite::Result<()> {
        if fact.text == new {
            return Ok(());
        }
        let mut all_sources: Vec<_> = sources.iter().take(SOURCES_MAX).cloned().collect();
        fact.sources
            .iter()
            .take(SOURCES_MAX)
            .for_each(|source| source::add(&mut all_sources, source));
        // The person's newer message replaces an earlier decision about the fact.
        let origin = match fact.origin {
            FactOrigin::Kept => FactOrigin::Kept,
            FactOrigin::Told | FactOrigin::Noticed | FactOrigin::Offered => FactOrigin::Noticed,
        };
        let new = NewFact { kind: fact.kind, text: new.to_owned(), origin, sources: all_sources };
        facts::reword(self.store, fact, &new, self.now)?;
        self.changed.updated += 1;
        Ok(())
    }

    fn end(&self, fact: &Fact, replaced_by: Option<FactId>) -> rusqlite::Result<()> {
        facts::mark_former(self.store, fact, replaced_by, self.now)
    }

    /// Removes the oldest facts of a status beyond a maximum.
    fn limit(&self, status: FactStatus, max: usize) -> rusqlite::Result<()> {
        let mut known = facts::list(self.store, &self.found.keys)?;
        known.retain(|fact| fact.status == status);
        let surplus = known.len().saturating_sub(max);
        known.iter().take(surplus).try_for_each(|fact| facts::remove(self.store, fact.id))
    }
}
