//! A cache of common terms, which most words of most messages are. Counting them again would cost more than the rest of a
//! message's search.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::words::Term;

/// Maximum number of cached terms. Beyond it the cache is cleared.
const TERMS_MAX: usize = 2_000;

/// Factor by which the size of the index may change, in both directions, while a count stays valid.
const HOLDS_FOR: f64 = 1.25;

/// A term that occurs in the index.
#[derive(Clone, Debug)]
pub(super) struct KnownTerm {
    /// The term in the index's query language.
    pub(super) wanted: String,
    /// Number of passages with the term.
    pub(super) passages: u32,
}

/// The cached common terms of an index. Cheap to clone, and empty after a restart.
#[derive(Clone, Debug, Default)]
// A mutex, because searches run in different threads. It is held for one lookup.
pub struct CommonTerms(Arc<Mutex<BTreeMap<String, CommonTerm>>>);

#[derive(Clone, Debug)]
struct CommonTerm {
    known: KnownTerm,
    /// Number of all passages in the index when the term was counted.
    all: f64,
}

impl CommonTerms {
    /// Returns a common term, if it was counted in an index of about this size.
    pub(super) fn get(&self, term: &Term, all: f64) -> Option<KnownTerm> {
        let terms = self.terms();
        let common = terms.get(&term.word)?;
        let is_valid = all <= common.all * HOLDS_FOR && all * HOLDS_FOR >= common.all;
        is_valid.then(|| common.known.clone())
    }

    pub(super) fn note(&self, term: &Term, known: KnownTerm, all: f64) {
        let mut terms = self.terms();
        if terms.len() >= TERMS_MAX {
            terms.clear();
        }
        terms.insert(term.word.clone(), CommonTerm { known, all });
    }

    fn terms(&self) -> MutexGuard<'_, BTreeMap<String, CommonTerm>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
