//! Shows if the store makes progress. Asking its threads needs no transaction: a full disk or a locked database is no
//! stuck thread. Work on the whole database is announced, because everything else may wait for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Store;
use super::threads::{ReadWork, WriterJob};
use crate::disk_writes::{DiskWriter, written_by};

/// Work on the whole database that goes on.
#[derive(Clone, Default)]
pub(super) struct LongWorks(
    // A mutex, because the writer is a thread of its own. It guards a count and an instant.
    Arc<Mutex<Announced>>,
);

#[derive(Default)]
struct Announced {
    count: usize,
    /// Since when there has been any.
    since: Option<Instant>,
}

/// Announces work on the whole database until it is dropped.
pub struct LongWork(LongWorks);

impl LongWorks {
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

/// Bytes that the writer has written since the start.
#[derive(Clone, Default)]
pub(super) struct WrittenBytes(Arc<AtomicU64>);

impl WrittenBytes {
    /// Notes the count of the thread that asks.
    pub(super) fn note(&self) {
        self.0.store(written_by(DiskWriter::Thread), Ordering::Relaxed);
    }
}

impl Store {
    /// Returns the bytes that were written into the database and its log since the start.
    pub fn written(&self) -> u64 {
        self.written.0.load(Ordering::Relaxed)
    }

    /// Announces work on the whole database, for which everything else may wait.
    pub fn long_work(&self) -> LongWork {
        let mut announced = self.long_works.lock();
        announced.count += 1;
        announced.since.get_or_insert_with(Instant::now);
        drop(announced);
        LongWork(self.long_works.clone())
    }

    /// Returns for how long announced work has been going on. None if there is none.
    pub fn working_for(&self) -> Option<Duration> {
        self.long_works.lock().since.map(|since| since.elapsed())
    }

    /// Waits until the writer has done everything that waited for it. Returns false if its thread has ended.
    pub async fn writer_answers(&self) -> bool {
        let (tell, told) = oneshot::channel();
        self.writes.send(WriterJob::Answer(tell)).await.is_ok() && told.await.is_ok()
    }

    /// Waits until the reader has done everything that waited for it. Returns false if its thread has ended.
    pub async fn reader_answers(&self) -> bool {
        let (tell, told) = oneshot::channel();
        let answer: ReadWork = Box::new(move |_| {
            tell.send(()).ok();
        });
        self.reads.send(answer).await.is_ok() && told.await.is_ok()
    }
}
