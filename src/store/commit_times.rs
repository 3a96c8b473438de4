//! Durations of commits, for the metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Store, Sync};
use crate::types::histogram::Histogram;

/// Upper bounds in seconds: from a sync of a fast disk to one that delays all work.
const BOUNDS: &[f64] = &[0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5];

/// The durations of commits since the start, including the checkpoints that some of them make.
#[derive(Clone, Debug)]
pub struct CommitDurations {
    /// Commits that end with a sync of the disk.
    pub synced: Histogram,
    /// Commits that a later sync covers.
    pub unsynced: Histogram,
}

/// The durations of the writer's commits.
#[derive(Clone)]
pub(super) struct CommitTimes(
    // A mutex, because the writer is a thread of its own. It guards a few counts.
    Arc<Mutex<CommitDurations>>,
);

impl Default for CommitTimes {
    fn default() -> Self {
        let (synced, unsynced) = (Histogram::new(BOUNDS), Histogram::new(BOUNDS));
        Self(Arc::new(Mutex::new(CommitDurations { synced, unsynced })))
    }
}

impl CommitTimes {
    pub(super) fn note(&self, sync: Sync, duration: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match sync {
            Sync::Now => times.synced.note(duration),
            Sync::Later => times.unsynced.note(duration),
        }
    }
}

impl Store {
    /// Returns the durations of all commits since the start.
    pub fn commit_durations(&self) -> CommitDurations {
        self.commit_times.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of changes that wait for the writer.
    pub fn changes_waiting(&self) -> usize {
        self.writes.max_capacity() - self.writes.capacity()
    }
}
