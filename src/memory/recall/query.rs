//! A search in the index, in bounded work whatever is stored. Terms are chosen by the number of passages that have
//! them: rare ones find, common ones are left out. Of each chosen term the newest passages are candidates, which are
//! ranked by BM25 and age.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::common::{CommonTerms, KnownTerm};
use super::words::{self, Term};
use super::{RecallId, RecallKey, RecallKind};
use crate::store::Time;

/// Passages up to which a term is counted. A term that has as many is common, and their number is estimated.
const COMMON_FROM: u32 = 500;

/// Terms that candidates are taken of, the rarest.
const CHOSEN_MAX: usize = 4;

/// Candidates of each term, the newest.
const CANDIDATES_MAX: u32 = 200;

/// Candidates whose texts are read.
const READ_MAX: usize = 60;

/// A term is rare if at most so many passages have it, or one in so many.
const RARE_MAX: u32 = 20;
const RARE_PART: f64 = 50.0;

/// Passages that are assumed at least: how rare a word is cannot be seen in fewer.
const PASSAGES_MIN: f64 = 1_000.0;

/// The usual parameters of BM25 (Robertson and Zaragoza, 2009).
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// The length of a usual passage, in characters.
const USUAL_CHARS: f64 = 500.0;

/// Weight of a passage of today beside an old one, and the age in days at which half of it is left.
const RECENCY: f64 = 0.3;
const RECENCY_DAYS: f64 = 30.0;

/// A search.
#[derive(Clone, Debug)]
pub struct RecallQuery {
    /// Only passages of these are found.
    pub keys: Vec<RecallKey>,
    pub terms: Vec<Term>,
    /// Only passages from then on are found.
    pub since: Option<DateTime<Utc>>,
    pub now: DateTime<Utc>,
    pub limit: usize,
    /// Nothing is found if all terms are frequent, as in a message that is no question about the past.
    pub needs_rare: bool,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallHit {
    pub key: RecallKey,
    pub kind: RecallKind,
    /// The id of the turn, file or fact.
    pub source: i64,
    pub line: usize,
    pub at: DateTime<Utc>,
    pub text: String,
    pub score: f64,
    /// Its part of the weight of all terms that occur in the index, up to 1.
    pub share: f64,
    /// Few passages have the rarest of its terms: at most twenty, or one in fifty.
    pub is_rare: bool,
}

/// A term that occurs in the index.
struct CountedTerm {
    term: Term,
    /// In the index's query language.
    wanted: String,
    passages: u32,
    weight: f64,
}

impl CountedTerm {
    fn of(term: &Term, KnownTerm { wanted, passages }: KnownTerm, all: f64) -> Self {
        let count = f64::from(passages);
        let others = (all.max(PASSAGES_MIN) - count).max(0.0);
        let weight = (1.0 + (others + 0.5) / (count + 0.5)).ln();
        Self { term: term.clone(), wanted, passages, weight }
    }

    fn is_rare(&self, all: f64) -> bool {
        self.passages <= RARE_MAX || f64::from(self.passages) * RARE_PART <= all
    }
}

/// A passage with some of the terms.
#[derive(Default)]
struct Candidate {
    weight: f64,
    /// The places of its terms among the chosen ones.
    terms: Vec<usize>,
}

/// Finds passages with some of the terms, the best first; one of each turn.
pub fn search(store: &Connection, query: &RecallQuery) -> rusqlite::Result<Vec<RecallHit>> {
    search_knowing(store, query, &CommonTerms::default())
}

/// The same, without counting terms again that are known to be common.
pub fn search_knowing(
    store: &Connection,
    query: &RecallQuery,
    common: &CommonTerms,
) -> rusqlite::Result<Vec<RecallHit>> {
    let all = newest(store)?;
    let mut counted = Vec::new();
    for term in &query.terms {
        let known = match common.get(term, all) {
            Some(known) => Some(known),
            None => count(store, term, all)?.inspect(|known| {
                if known.passages >= COMMON_FROM {
                    common.note(term, known.clone(), all);
                }
            }),
        };
        counted.extend(known.map(|known| CountedTerm::of(term, known, all)));
    }
    let total: f64 = counted.iter().map(|it| it.weight).sum();
    counted.sort_by_key(|it| it.passages);
    let chosen = choose(counted);
    if query.needs_rare && !chosen.first().is_some_and(|term| term.is_rare(all)) {
        return Ok(Vec::new());
    }
    let mut candidates: Vec<_> = candidates(store, query, &chosen)?.into_iter().collect();
    candidates
        .sort_by(|(a, one), (b, other)| other.weight.total_cmp(&one.weight).then_with(|| b.cmp(a)));
    let mut hits = Vec::new();
    let terms = ChosenTerms { chosen: &chosen, all };
    for (id, candidate) in candidates.into_iter().take(READ_MAX) {
        hits.extend(read(store, id, &candidate, &terms, query)?.map(|hit| RecallHit {
            share: if total > 0.0 { candidate.weight / total } else { 0.0 },
            ..hit
        }));
    }
    hits.sort_by(|one, other| other.score.total_cmp(&one.score));
    let mut shown = Vec::new();
    hits.retain(|hit| {
        let source = (hit.kind, hit.source);
        let is_first = hit.kind == RecallKind::File || !shown.contains(&source);
        shown.push(source);
        is_first
    });
    hits.truncate(query.limit);
    Ok(hits)
}

/// About the number of passages.
fn newest(store: &Connection) -> rusqlite::Result<f64> {
    let newest: Option<u32> = store
        .prepare_cached("SELECT max(id) FROM recall_entries")?
        .query_row([], |row| row.get(0))
        .optional()?
        .flatten();
    Ok(f64::from(newest.unwrap_or_default()))
}

/// Counts the passages with a term, or with other forms of it. None if there are none. Those of a common term are
/// estimated from where in the index the first ones are.
fn count(store: &Connection, term: &Term, all: f64) -> rusqlite::Result<Option<KnownTerm>> {
    let mut counting = store.prepare_cached(
        "SELECT count(*), max(rowid) FROM
         (SELECT rowid FROM recall_index WHERE recall_index MATCH ? ORDER BY rowid LIMIT ?)",
    )?;
    for wanted in [Some(term.exact()), term.other_forms()].into_iter().flatten() {
        let wanted = format!("text : {wanted}");
        let (counted, last) = counting
            .query_row(params![wanted, COMMON_FROM], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let passages = match (counted, last) {
            (0, _) => continue,
            (COMMON_FROM, Some(last)) => estimate(all, last),
            (counted, _) => counted,
        };
        return Ok(Some(KnownTerm { wanted, passages }));
    }
    Ok(None)
}

/// The passages with a term whose first [`COMMON_FROM`] end at a row.
fn estimate(all: f64, last: u32) -> u32 {
    let part = f64::from(COMMON_FROM) / f64::from(last.max(1));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    let passages = (all * part.min(1.0)).clamp(0.0, f64::from(u32::MAX)) as u32;
    passages.max(COMMON_FROM)
}

/// The rarest terms; the common ones only if all are.
fn choose(mut counted: Vec<CountedTerm>) -> Vec<CountedTerm> {
    let rare = counted.iter().take_while(|it| it.passages < COMMON_FROM).count();
    counted.truncate(if rare > 0 { rare.min(CHOSEN_MAX) } else { CHOSEN_MAX });
    counted
}

/// The newest passages with each of the terms, and with all of them.
fn candidates(
    store: &Connection,
    query: &RecallQuery,
    chosen: &[CountedTerm],
) -> rusqlite::Result<BTreeMap<RecallId, Candidate>> {
    let mut found: BTreeMap<RecallId, Candidate> = BTreeMap::new();
    if query.keys.is_empty() {
        return Ok(found);
    }
    let keys: Vec<_> = query.keys.iter().map(|key| format!("\"{}\"", key.as_str())).collect();
    let who = format!("who : ({})", keys.join(" OR "));
    let mut look = store.prepare_cached(
        "SELECT rowid FROM recall_index WHERE recall_index MATCH ? ORDER BY rowid DESC LIMIT ?",
    )?;
    let each = chosen.iter().enumerate().map(|(at, it)| (vec![at], it.wanted.clone()));
    let all: Vec<_> = chosen.iter().map(|it| it.wanted.as_str()).collect();
    let all = (chosen.len() > 1).then(|| ((0..chosen.len()).collect(), all.join(" AND ")));
    for (terms, wanted) in all.into_iter().chain(each) {
        let wanted = format!("{who} AND {wanted}");
        let rows = look.query_map(params![wanted, CANDIDATES_MAX], |row| row.get(0))?;
        for id in rows {
            let candidate = found.entry(id?).or_default();
            for at in &terms {
                if !candidate.terms.contains(at) {
                    candidate.terms.push(*at);
                    candidate.weight += chosen[*at].weight;
                }
            }
        }
    }
    Ok(found)
}

/// The terms that are searched for.
struct ChosenTerms<'a> {
    chosen: &'a [CountedTerm],
    /// The number of all passages.
    all: f64,
}

/// Reads a candidate and ranks it. None if it is of nobody who asks, or too old.
fn read(
    store: &Connection,
    id: RecallId,
    candidate: &Candidate,
    terms: &ChosenTerms<'_>,
    query: &RecallQuery,
) -> rusqlite::Result<Option<RecallHit>> {
    let hit = store
        .prepare_cached(
            "SELECT who, kind, source, line, at, text FROM recall_entries WHERE id = ?",
        )?
        .query_row([id], |row| {
            Ok(RecallHit {
                key: row.get(0)?,
                kind: row.get(1)?,
                source: row.get(2)?,
                line: row.get(3)?,
                at: row.get::<_, Time>(4)?.0,
                text: row.get(5)?,
                score: 0.0,
                share: 0.0,
                is_rare: false,
            })
        })
        .optional()?;
    // The index has looked at the key already; an entry of others must not be read if it were damaged.
    let hit = hit.filter(|hit| query.keys.contains(&hit.key));
    let hit = hit.filter(|hit| query.since.is_none_or(|since| hit.at >= since));
    Ok(hit.map(|hit| {
        let found = candidate.terms.iter().map(|at| &terms.chosen[*at]);
        let is_rare = found.clone().any(|it| it.is_rare(terms.all));
        let score = found.map(|it| bm25(&hit.text, it)).sum::<f64>() * recency(hit.at, query.now);
        RecallHit { score, is_rare, ..hit }
    }))
}

fn bm25(text: &str, CountedTerm { term, weight, .. }: &CountedTerm) -> f64 {
    let times = f64::from(u32::try_from(words::occurrences(text, term)).unwrap_or(u32::MAX));
    let length = f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX));
    weight * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length / USUAL_CHARS))
}

fn recency(at: DateTime<Utc>, now: DateTime<Utc>) -> f64 {
    let minutes = i32::try_from((now - at).num_minutes().max(0)).unwrap_or(i32::MAX);
    let days = f64::from(minutes) / (24.0 * 60.0);
    1.0 + RECENCY * (-days / RECENCY_DAYS).exp2()
}
