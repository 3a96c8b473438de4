//! The progress of filling the index: after an upgrade, or after it was broken. The work itself is in `daemon::indexing`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The interval between two lines of the log.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The parts of which an index is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexedParts {
    /// Turns that are older than the index.
    Messages,
    /// Passages of turns, files and facts, all of which an emptied index lacks.
    Passages,
}

impl IndexedParts {
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Passages => "passages",
        }
    }
}

/// Number of parts that are in the index, of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexCount {
    pub parts: IndexedParts,
    pub done: u64,
    pub total: u64,
}

/// The count while the index is filled, for everybody who shows it.
#[derive(Clone, Debug, Default)]
pub struct IndexProgress(
    // A mutex, because one task writes it, and requests read it. It guards three numbers.
    Arc<Mutex<Option<IndexCount>>>,
);

impl IndexProgress {
    /// Returns the present count. None unless the index is being filled.
    pub fn count(&self) -> Option<IndexCount> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a count until the result is dropped.
    pub fn begin(&self, count: IndexCount) -> ShownIndexCount {
        self.set(Some(count));
        log(count);
        ShownIndexCount { progress: self.clone(), count, logged: Instant::now() }
    }

    fn set(&self, count: Option<IndexCount>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = count;
    }
}

/// A count that is shown until this is dropped.
pub struct ShownIndexCount {
    progress: IndexProgress,
    count: IndexCount,
    logged: Instant,
}

impl ShownIndexCount {
    /// Notes parts that were added to the index.
    pub fn add(&mut self, parts: usize) {
        // Some may have become more, or were removed, since they were counted.
        let done = self.count.done.saturating_add(parts as u64);
        self.count.done = done.min(self.count.total);
        self.progress.set(Some(self.count));
        if self.logged.elapsed() >= LOGGED_EVERY {
            self.logged = Instant::now();
            log(self.count);
        }
    }
}

impl Drop for ShownIndexCount {
    fn drop(&mut self) {
        self.progress.set(None);
    }
}

fn log(IndexCount { parts, done, total }: IndexCount) {
    tracing::info!(done, total, "Indexing {} for the search", parts.name());
}
