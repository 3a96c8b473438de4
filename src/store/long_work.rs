//! Announcements of work on the whole database, for which everything else may wait, and the number of bytes that the
//! writer has written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::process::{DiskWriter, written_by};

/// The announced work on the whole database.
#[derive(Clone, Default)]
pub(super) struct LongWorks(
    // A mutex, because the writer is a thread of its own. It guards a count and an instant.
    Arc<Mutex<Announced>>,
);

#[derive(Default)]
struct Announced {
    count: usize,
    /// Time since which there has been any work.
    since: Option<Instant>,
}

/// Announces work on the whole database until it is dropped.
pub struct LongWork(LongWorks);

impl LongWorks {
    /// Announces work until the result is dropped.
    pub(super) fn begin(&self) -> LongWork {
        let mut announced = self.lock();
        announced.count += 1;
        announced.since.get_or_insert_with(Instant::now);
        drop(announced);
        LongWork(self.clone())
    }

    /// Returns the time for which there has been announced work. None if there is none.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.lock().since.map(|since| since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Announced> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LongWork {
    fn drop(&mut self) {
        let mut announced = self.0.lock();
        announced.count -= 1;
        if announced.count == 0 {
            announced.since = None;
        }
    }
}

/// Number of bytes that the writer has written since the start.
#[derive(Clone, Default)]
pub(super) struct WrittenBytes(Arc<AtomicU64>);

impl WrittenBytes {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores the count of the calling thread.
    pub(super) fn note(&self) {
        self.0.store(written_by(DiskWriter::Thread), Ordering::Relaxed);
    }
}
