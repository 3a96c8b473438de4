//! Tracks changed rows of a few tables. One task uses them, so that it need not read whole tables to find
//! changes.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of changed rows that are kept. Beyond it, reading whole tables is cheaper.
const CHANGES_MAX: usize = 10_000;

/// A changed row: its table and its id.
pub type ChangedRow = (&'static str, i64);

/// The rows that changed since the last call of `take`.
#[derive(Default)]
pub(super) struct Changes(
    // The writer thread adds and never waits for the consumer. A channel would lose rows or block it.
    Mutex<ChangesState>,
);

#[derive(Default)]
struct ChangesState {
    tables: &'static [&'static str],
    /// Rows of the open transaction.
    open: BTreeSet<ChangedRow>,
    committed: BTreeSet<ChangedRow>,
    /// True if more rows changed than are kept.
    overflowed: bool,
}

impl Changes {
    pub(super) fn follow(&self, tables: &'static [&'static str]) {
        let mut state = self.state();
        state.tables = tables;
    }

    /// Notes a row of the open transaction.
    pub(super) fn note(&self, table: &str, row: i64) {
        let mut state = self.state();
        if let Some(table) = state.tables.iter().copied().find(|followed| *followed == table) {
            state.open.insert((table, row));
        }
    }

    pub(super) fn committed(&self) {
        let mut state = self.state();
        let open = std::mem::take(&mut state.open);
        if state.committed.len() + open.len() > CHANGES_MAX {
            state.overflowed = true;
            state.committed = BTreeSet::new();
        }
        if !state.overflowed {
            state.committed.extend(open);
        }
    }

    pub(super) fn rolled_back(&self) {
        self.state().open.clear();
    }

    /// Returns the rows that changed since the last call. None if they were too many to be kept.
    pub(super) fn take(&self) -> Option<BTreeSet<ChangedRow>> {
        let mut state = self.state();
        let committed = std::mem::take(&mut state.committed);
        let overflowed = std::mem::take(&mut state.overflowed);
        (!overflowed).then_some(committed)
    }

    fn state(&self) -> MutexGuard<'_, ChangesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
