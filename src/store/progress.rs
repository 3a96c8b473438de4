//! Shows if the store makes progress. Asking its threads needs no transaction: a full disk or a locked database is no
//! stuck thread.

use std::time::Duration;

use tokio::sync::oneshot;

use super::threads::{ReaderJob, WriterJob};
use super::{LongWork, Store};

impl Store {
    /// Returns the bytes that were written into the database and its log since the start.
    pub fn written(&self) -> u64 {
        self.written.get()
    }

    /// Announces work on the whole database, for which everything else may wait.
    pub fn long_work(&self) -> LongWork {
        self.long_works.begin()
    }

    /// Returns for how long announced work has been going on. None if there is none.
    pub fn working_for(&self) -> Option<Duration> {
        self.long_works.going_on_for()
    }

    /// Waits until the writer has done everything that waited for it. Returns false if its thread has ended.
    pub async fn writer_answers(&self) -> bool {
        let (tell, told) = oneshot::channel();
        self.writes.send(WriterJob::Answer(tell)).await.is_ok() && told.await.is_ok()
    }

    /// Waits until the reader has done everything that waited for it. Returns false if its thread has ended.
    pub async fn reader_answers(&self) -> bool {
        let (tell, told) = oneshot::channel();
        let answer = ReaderJob::Read(Box::new(move |_| {
            tell.send(()).ok();
        }));
        self.reads.send(answer).await.is_ok() && told.await.is_ok()
    }
}
