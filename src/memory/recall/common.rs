//! Terms that are known to be common: most words of most messages. To count them again costs more than all else that a
//! message's search does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::words::Term;

/// Terms that are remembered. Beyond them all are counted anew.
const TERMS_MAX: usize = 2_000;

/// A count holds while the index has at most so many times the passages that it had, and at least its part.
const HOLDS_FOR: f64 = 1.25;

/// A term as the index knows it.
#[derive(Clone, Debug)]
pub(super) struct KnownTerm {
    /// In the index's query language.
    pub(super) wanted: String,
    /// The passages that have it.
    pub(super) passages: u32,
}

/// The common terms of an index, cheap to clone. Forgotten at a restart.
#[derive(Clone, Debug, Default)]
// A mutex because searches are different threads; it is held for one look.
pub struct CommonTerms(Arc<Mutex<BTreeMap<String, CommonTerm>>>);

#[derive(Clone, Debug)]
struct CommonTerm {
    known: KnownTerm,
    /// All passages of the index when it was counted.
    all: f64,
}

impl CommonTerms {
    /// A common term, if it was counted in an index of about this size.
    pub(super) fn get(&self, term: &Term, all: f64) -> Option<KnownTerm> {
        let terms = self.terms();
        let common = terms.get(&term.word)?;
        let holds = all <= common.all * HOLDS_FOR && all * HOLDS_FOR >= common.all;
        holds.then(|| common.known.clone())
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
