//! Checks if the store's threads make progress, and tells of its trouble. The check needs no transaction, so that a full
//! disk or a locked database does not count as a stuck thread.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::threads::{ReaderJob, WriterJob};
use super::{LongWork, Store, StoreTrouble};

impl Store {
    /// Returns the number of bytes written into the database and its log since the start.
    pub fn written(&self) -> u64 {
        self.written.get()
    }

    /// Announces work on the whole database, for which everything else may wait.
    pub fn long_work(&self) -> LongWork {
        self.long_works.begin()
    }

    /// Returns the time for which there has been announced work. None if there is none.
    pub fn long_work_duration(&self) -> Option<Duration> {
        self.long_works.duration()
    }

    /// Returns the present trouble. None if there is none, or if nothing has met it yet.
    pub fn trouble(&self) -> Option<StoreTrouble> {
        self.troubles.present()
    }

    /// Wakes when a trouble begins or ends.
    pub fn watch_trouble(&self) -> watch::Receiver<Option<StoreTrouble>> {
        self.troubles.watch()
    }

    /// Wakes when a read or a change fails because the search index is broken.
    pub fn watch_index(&self) -> watch::Receiver<u64> {
        self.troubles.watch_index()
    }

    /// Notes that the database is damaged, which somebody has found out on another connection.
    pub fn note_damage(&self) {
        self.troubles.note(StoreTrouble::Damaged);
    }

    /// Waits until the writer has finished its queue. Returns false if its thread has ended.
    pub async fn writer_answers(&self) -> bool {
        let (sender, receiver) = oneshot::channel();
        self.writes.send(WriterJob::Answer(sender)).await.is_ok() && receiver.await.is_ok()
    }

    /// Waits until the reader has finished its queue. Returns false if its thread has ended.
    pub async fn reader_answers(&self) -> bool {
        let (sender, receiver) = oneshot::channel();
        let answer = ReaderJob::Read(Box::new(move |_| {
            sender.send(()).ok();
        }));
        self.reads.send(answer).await.is_ok() && receiver.await.is_ok()
    }
}
