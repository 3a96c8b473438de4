//! Searches the index with bounded work, whatever its size. Terms are chosen by the number of their passages: rare ones
//! are used, common ones are left out. The newest passages of each chosen term are candidates, which are ranked by BM25
//! and age.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::common::{CommonTerms, KnownTerm};
use super::words::{self, Term};
use super::{RecallId, RecallKey, RecallKind};
use crate::store::Time;

/// Number of passages up to which a term is counted. A term with as many is common, and their number is estimated.
const COMMON_FROM: u32 = 500;

/// Maximum number of terms with candidates: the rarest.
const CHOSEN_MAX: usize = 4;

/// Maximum number of candidates of each term: the newest.
const CANDIDATES_MAX: u32 = 200;

/// Maximum number of candidates whose texts are read.
const READ_MAX: usize = 60;

/// A term is rare if at most `RARE_MAX` passages have it, or one in `RARE_PART`.
const RARE_MAX: u32 = 20;
const RARE_PART: f64 = 50.0;

/// Least assumed number of passages: in fewer, the rarity of a word cannot be estimated.
const PASSAGES_MIN: f64 = 1_000.0;

/// The usual parameters of BM25 (Robertson and Zaragoza, 2009).
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// The average length of a passage, in characters.
const USUAL_CHARS: f64 = 500.0;

/// Additional weight of a passage of today, relative to an old one, and its half-life in days.
const RECENCY: f64 = 0.3;
const RECENCY_DAYS: f64 = 30.0;

/// A search.
#[derive(Clone, Debug)]
pub struct RecallQuery {
    /// Only passages with these keys are found.
    pub keys: Vec<RecallKey>,
    pub terms: Vec<Term>,
    /// Only passages from this time on are found.
    pub since: Option<DateTime<Utc>>,
    pub now: DateTime<Utc>,
    pub limit: usize,
    /// True if nothing is found when all terms are frequent, as in a message that does not ask about the past.
    pub needs_rare: bool,
}

/// A found passage.
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
    /// Its share of the weight of all terms that occur in the index, up to 1.
    pub share: f64,
    /// True if its rarest term is rare: at most twenty passages have it, or one in fifty.
    pub is_rare: bool,
}

/// A term that occurs in the index.
struct CountedTerm {
    term: Term,
    /// The term in the index's query language.
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
    /// The indices of its terms among the chosen ones.
    terms: Vec<usize>,
}

/// Returns passages with some of the terms, best first, and one for each turn.
pub fn search(store: &Connection, query: &RecallQuery) -> rusqlite::Result<Vec<RecallHit>> {
    search_with_cache(store, query, &CommonTerms::default())
}

/// Searches like [`search`], without counting cached common terms again.
pub fn search_with_cache(
    store: &Connection,
    query: &RecallQuery,
    common: &CommonTerms,
) -> rusqlite::Result<Vec<RecallHit>> {
    let all = passage_count(store)?;
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
    let total: f64 = counted.iter().map(|term| term.weight).sum();
    counted.sort_by_key(|term| term.passages);
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
        hits.extend(read_hit(store, id, &candidate, &terms, query)?.map(|hit| RecallHit {
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

/// Returns the approximate number of passages.
fn passage_count(store: &Connection) -> rusqlite::Result<f64> {
    let passage_count: Option<u32> = store
        .prepare_cached("SELECT max(id) FROM recall_entries")?
        .query_row([], |row| row.get(0))
        .optional()?
        .flatten();
    Ok(f64::from(passage_count.unwrap_or_default()))
}

/// Counts the passages with a term, or with other forms of it. None if there are none. The number for a common term is
/// estimated from the position of its first passages in the index.
fn count(store: &Connection, term: &Term, all: f64) -> rusqlite::Result<Option<KnownTerm>> {
    let mut statement = store.prepare_cached(
        "SELECT count(*), max(rowid) FROM
         (SELECT rowid FROM recall_index WHERE recall_index MATCH ? ORDER BY rowid LIMIT ?)",
    )?;
    for wanted in [Some(term.exact()), term.other_forms()].into_iter().flatten() {
        let wanted = format!("text : {wanted}");
        let (counted, last) = statement
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

/// Estimates the number of passages with a term, of which the first [`COMMON_FROM`] end at the row `last`.
fn estimate(all: f64, last: u32) -> u32 {
    let part = f64::from(COMMON_FROM) / f64::from(last.max(1));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    let passages = (all * part.min(1.0)).clamp(0.0, f64::from(u32::MAX)) as u32;
    passages.max(COMMON_FROM)
}

/// Returns the rarest terms. Common ones only if all are common.
fn choose(mut counted: Vec<CountedTerm>) -> Vec<CountedTerm> {
    let rare = counted.iter().take_while(|term| term.passages < COMMON_FROM).count();
    counted.truncate(if rare > 0 { rare.min(CHOSEN_MAX) } else { CHOSEN_MAX });
    counted
}

/// Returns the newest passages with each of the terms, and with all of them.
fn candidates(
    store: &Connection,
    query: &RecallQuery,
    chosen: &[CountedTerm],
) -> rusqlite::Result<BTreeMap<RecallId, Candidate>> {
    let mut candidates_found: BTreeMap<RecallId, Candidate> = BTreeMap::new();
    if query.keys.is_empty() {
        return Ok(candidates_found);
    }
    let keys: Vec<_> = query.keys.iter().map(|key| format!("\"{}\"", key.as_str())).collect();
    let who = format!("who : ({})", keys.join(" OR "));
    let mut statement = store.prepare_cached(
        "SELECT rowid FROM recall_index WHERE recall_index MATCH ? ORDER BY rowid DESC LIMIT ?",
    )?;
    let each = chosen.iter().enumerate().map(|(index, term)| (vec![index], term.wanted.clone()));
    let all: Vec<_> = chosen.iter().map(|term| term.wanted.as_str()).collect();
    let all = (chosen.len() > 1).then(|| ((0..chosen.len()).collect(), all.join(" AND ")));
    for (terms, wanted) in all.into_iter().chain(each) {
        let wanted = format!("{who} AND {wanted}");
        let rows = statement.query_map(params![wanted, CANDIDATES_MAX], |row| row.get(0))?;
        for id in rows {
            let candidate = candidates_found.entry(id?).or_default();
            for index in &terms {
                if !candidate.terms.contains(index) {
                    candidate.terms.push(*index);
                    candidate.weight += chosen[*index].weight;
                }
            }
        }
    }
    Ok(candidates_found)
}

/// The searched terms.
struct ChosenTerms<'a> {
    chosen: &'a [CountedTerm],
    /// The number of all passages.
    all: f64,
}

/// Reads a candidate and ranks it. None if its key is not among those of the query, or if it is too old.
fn read_hit(
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
    // The index has checked the key already. This protects entries of others in case the index is damaged.
    let hit = hit.filter(|hit| query.keys.contains(&hit.key));
    let hit = hit.filter(|hit| query.since.is_none_or(|since| hit.at >= since));
    Ok(hit.map(|hit| {
        let found = candidate.terms.iter().map(|index| &terms.chosen[*index]);
        let is_rare = found.clone().any(|term| term.is_rare(terms.all));
        let score =
            found.map(|term| bm25(&hit.text, term)).sum::<f64>() * recency(hit.at, query.now);
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
