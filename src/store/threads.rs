//! The two threads of the store. The writer takes all waiting changes and commits them together, so that
//! a busy bot pays one sync for many messages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::changes::Changes;
use super::commit_times::CommitTimes;
use super::long_work::WrittenBytes;
use super::trouble::{StoreTrouble, Troubles};
use super::{Ballast, CommitEvent, LongWork, Observer, Phase, StoreError, Sync};

/// Maximum number of changes in one commit, so that the first of them does not wait long.
const GROUP_MAX: usize = 64;

/// Least number of announced writers for which a sync waits for others, and the length of that wait, like
/// PostgreSQL's `commit_siblings` and `commit_delay`. With few writers the wait would only delay answers.
const WRITERS_MIN: usize = 8;
const JOIN_WAIT: Duration = Duration::from_millis(2);

pub(super) type ReadWork = Box<dyn FnOnce(&Connection) + Send>;

/// A job of the writer.
pub(super) enum WriterJob {
    Write(Write),
    /// Moves the write-ahead log into the database file.
    Checkpoint(oneshot::Sender<()>),
    /// Rewrites the database.
    Rewrite(oneshot::Sender<Result<(), StoreError>>, LongWork),
    /// Reports that the writer has finished the jobs before this one.
    Answer(oneshot::Sender<()>),
    /// Ends the writer. Answered once its connection is closed.
    Close(oneshot::Sender<()>),
}

/// A job of the reader.
pub(super) enum ReaderJob {
    Read(ReadWork),
    /// Ends the reader. Answered once its connection is closed.
    Close(oneshot::Sender<()>),
}

/// A change. Its caller gets the result once it is committed.
pub(super) struct Write {
    label: &'static str,
    sync: Sync,
    work: Box<Work>,
}

/// Runs inside the open transaction, or gets the error that prevented one.
type Work = dyn FnOnce(Result<&Connection, StoreError>) -> Worked + Send;

/// The outcome of a change inside the open transaction, and the callback that reports it after the commit.
struct Worked {
    failed: Option<StoreError>,
    report: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

impl Write {
    pub(super) fn new<T: Send + 'static>(
        label: &'static str,
        sync: Sync,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        sender: oneshot::Sender<Result<T, StoreError>>,
    ) -> Self {
        let attempt = move |connection: &Connection| {
            catch_unwind(AssertUnwindSafe(|| work(connection)))
                .map_err(|_| StoreError::Change(format!("the change `{label}` panicked")))
                .and_then(|result| result.map_err(StoreError::from))
        };
        let work = Box::new(move |open: Result<&Connection, StoreError>| {
            let result = open.and_then(attempt);
            let failed = result.as_ref().err().cloned();
            let report = move |committed: Result<(), StoreError>| {
                sender.send(committed.and(result)).ok();
            };
            Worked { failed, report: Box::new(report) }
        });
        Self { label, sync, work }
    }
}

/// Announces a writer until it is dropped.
pub struct AnnouncedWriter(Arc<AtomicUsize>);

impl AnnouncedWriter {
    pub(super) fn new(writers: &Arc<AtomicUsize>) -> Self {
        writers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(writers))
    }
}

impl Drop for AnnouncedWriter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn spawn_writer(
    mut writer: Writer,
    mut queue: mpsc::Receiver<WriterJob>,
    writers: Arc<AtomicUsize>,
    written: WrittenBytes,
) -> std::io::Result<()> {
    thread::Builder::new().name("store-write".to_owned()).spawn(move || {
        let (mut jobs, mut closing) = (Vec::new(), Vec::new());
        while closing.is_empty() && queue.blocking_recv_many(&mut jobs, GROUP_MAX) > 0 {
            let needs_sync =
                |job: &WriterJob| matches!(job, WriterJob::Write(write) if write.sync == Sync::Now);
            if writers.load(Ordering::Relaxed) >= WRITERS_MIN && jobs.iter().any(needs_sync) {
                thread::sleep(JOIN_WAIT);
                while jobs.len() < GROUP_MAX
                    && let Ok(job) = queue.try_recv()
                {
                    jobs.push(job);
                }
            }
            let mut group = Vec::new();
            let mut checkpoints = Vec::new();
            let mut rewrites = Vec::new();
            let mut answers = Vec::new();
            for job in jobs.drain(..) {
                match job {
                    WriterJob::Write(write) => group.push(write),
                    WriterJob::Checkpoint(sender) => checkpoints.push(sender),
                    WriterJob::Rewrite(sender, announced) => rewrites.push((sender, announced)),
                    WriterJob::Answer(sender) => answers.push(sender),
                    WriterJob::Close(sender) => closing.push(sender),
                }
            }
            if !group.is_empty() {
                writer.commit(group);
            }
            for (sender, announced) in rewrites {
                // The auto_vacuum mode of an older database changes only when it is rewritten.
                let rewrite = "PRAGMA auto_vacuum = incremental; VACUUM";
                let result = writer.connection.execute_batch(rewrite);
                drop(announced);
                sender.send(result.map_err(StoreError::from)).ok();
            }
            for sender in checkpoints {
                writer.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").ok();
                sender.send(()).ok();
            }
            written.note();
            for sender in answers {
                sender.send(()).ok();
            }
        }
        drop(writer);
        for sender in closing {
            sender.send(()).ok();
        }
    })?;
    Ok(())
}

pub(super) fn spawn_reader(
    connection: Connection,
    mut jobs: mpsc::Receiver<ReaderJob>,
) -> std::io::Result<()> {
    thread::Builder::new().name("store-read".to_owned()).spawn(move || {
        while let Some(job) = jobs.blocking_recv() {
            match job {
                // If a read panics, its caller sees the sender dropped.
                ReaderJob::Read(read) => {
                    catch_unwind(AssertUnwindSafe(|| read(&connection))).ok();
                }
                ReaderJob::Close(sender) => {
                    drop(connection);
                    sender.send(()).ok();
                    return;
                }
            }
        }
    })?;
    Ok(())
}

pub(super) struct Writer {
    connection: Connection,
    observer: Option<Observer>,
    changes: Arc<Changes>,
    ballast: Ballast,
    times: CommitTimes,
    troubles: Troubles,
    commits: u64,
    full_sync: bool,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        observer: Option<Observer>,
        changes: Arc<Changes>,
        ballast: Ballast,
        times: CommitTimes,
    ) -> Self {
        let (troubles, commits, full_sync) = (Troubles::default(), 0, false);
        Self { connection, observer, changes, ballast, times, troubles, commits, full_sync }
    }

    /// The same, which notes its troubles there.
    pub(super) fn noting(self, troubles: Troubles) -> Self {
        Self { troubles, ..self }
    }

    fn commit(&mut self, group: Vec<Write>) {
        let labels: Vec<_> = group.iter().map(|write| write.label).collect();
        let mut state = self.begin(group.iter().any(|write| write.sync == Sync::Now));
        let mut outcomes = Vec::with_capacity(group.len());
        for write in group {
            let outcome = self.make(write, state.clone());
            // On a full disk SQLite itself rolls everything back.
            if state.is_ok() && self.connection.is_autocommit() {
                state = Err(outcome.failed.clone().unwrap_or_else(|| {
                    StoreError::Broken("the transaction was rolled back".to_owned())
                }));
            }
            outcomes.push(outcome);
        }
        let committed = state.and_then(|()| self.end(&labels));
        if let Err(error) = &committed {
            tracing::error!(%error, "Could not commit");
            self.connection.execute_batch("ROLLBACK").ok();
            self.changes.rolled_back();
        }
        self.note_trouble(&committed, &outcomes);
        outcomes.into_iter().for_each(|outcome| (outcome.report)(committed.clone()));
    }

    /// Notes the trouble that a commit has met, or its end. Makes room on a full disk.
    fn note_trouble(&mut self, committed: &Result<(), StoreError>, outcomes: &[Worked]) {
        let failed = outcomes.iter().filter_map(|outcome| outcome.failed.as_ref());
        let errors: Vec<&StoreError> = committed.as_ref().err().into_iter().chain(failed).collect();
        let is_full = errors.iter().any(|error| matches!(error, StoreError::Full));
        if is_full {
            self.ballast.delete();
        } else if committed.is_ok() {
            self.ballast.restore();
        }
        if errors.iter().any(|error| matches!(error, StoreError::Index(_))) {
            self.troubles.note_broken_index();
        }
        if errors.iter().any(|error| matches!(error, StoreError::Corrupt(_))) {
            self.troubles.note(StoreTrouble::Damaged);
        } else if is_full {
            self.troubles.note(StoreTrouble::Full);
        } else if matches!(committed, Err(StoreError::Broken(_))) {
            self.troubles.note(StoreTrouble::Failing);
        } else if committed.is_ok()
            && (self.ballast.is_whole() || self.troubles.present() != Some(StoreTrouble::Full))
        {
            self.troubles.end();
        }
    }

    /// Makes one change in a savepoint, so that its failure does not affect the others of the group.
    fn make(&self, write: Write, state: Result<(), StoreError>) -> Worked {
        let open = state.and_then(|()| {
            self.execute("SAVEPOINT change")?;
            Ok(&self.connection)
        });
        let has_savepoint = open.is_ok();
        let outcome = (write.work)(open);
        if has_savepoint && !self.connection.is_autocommit() {
            if outcome.failed.is_some() {
                self.execute("ROLLBACK TO change").ok();
            }
            self.execute("RELEASE change").ok();
        }
        outcome
    }

    fn end(&mut self, labels: &[&'static str]) -> Result<(), StoreError> {
        self.commits += 1;
        self.observe(Phase::Before, labels);
        let started = Instant::now();
        self.execute("COMMIT")?;
        self.times.note(self.sync(), started.elapsed());
        self.changes.committed();
        self.observe(Phase::After, labels);
        Ok(())
    }

    /// Begins a transaction. With `synchronous = full`, SQLite syncs the log at each commit, and with it all
    /// earlier commits.
    fn begin(&mut self, sync: bool) -> Result<(), StoreError> {
        if self.full_sync != sync {
            let level = if sync { "full" } else { "normal" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.full_sync = sync;
        }
        Ok(self.execute("BEGIN IMMEDIATE")?)
    }

    /// Runs a statement that is prepared once.
    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Returns the durability of the transaction.
    fn sync(&self) -> Sync {
        if self.full_sync { Sync::Now } else { Sync::Later }
    }

    fn observe(&self, phase: Phase, labels: &[&'static str]) {
        if let Some(observer) = &self.observer {
            observer(CommitEvent { commit: self.commits, phase, sync: self.sync(), labels });
        }
    }
}
