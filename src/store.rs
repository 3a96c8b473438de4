//! The database: a writer thread that commits many changes at once, a reader thread, searches on their
//! own connections, the schema and its migrations, and the lock that keeps a second daemon out. Not
//! here: the SQL of a domain, which is in the module of that domain.

mod access;
pub mod ballast;
mod blanking;
mod changes;
mod columns;
mod commit_times;
mod connection;
mod emptied;
mod error;
mod header;
mod lock;
mod lock_holder;
mod long_work;
mod lost_log;
mod observer;
mod offline;
mod pages;
mod progress;
mod row_numbers;
mod schema;
mod savepoint;
mod searches;
mod threads;
mod trouble;
mod slices;
mod words_digest;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use ballast::{Ballast, is_full};
pub use blanking::{
    BlankPass, BlankedSlice, ChatPlace, FORGOTTEN, ForgottenWords, RowKey, TextColumns, TextForm,
    blank_slice,
};
pub use changes::ChangedRow;
use changes::Changes;
pub use columns::{Json, LenientJson, Time};
pub(crate) use columns::{integer_columns, text_columns};
pub use commit_times::CommitDurations;
use commit_times::CommitTimes;
use connection::connect;
use emptied::{delete_unwritten, refuse_emptied};
pub use error::{ANEW, OpenError, StoreError};
pub use lock::HomeLock;
pub use lock_holder::{LockHolder, MigrationStep, StartWork};
pub use long_work::LongWork;
use long_work::{LongWorks, WrittenBytes};
pub use lost_log::{LostLog, find_lost_log};
pub use observer::{CommitEvent, Observer, Phase, Sync};
pub use offline::{
    change_offline, check_file_integrity, check_integrity, check_schema, has_store, read_offline,
    refuse_unmigrated, rewrite_offline, snapshot, try_read,
};
pub use pages::DatabasePages;
pub use row_numbers::{NewestRowNumber, newest_row_numbers, skip_row_numbers};
pub use savepoint::in_savepoint;
pub use schema::{MigrationObserver, MigrationProgress, newest as newest_schema};
use searches::Searches;
pub use slices::{SLICE, slice};
pub use threads::AnnouncedWriter;
pub use trouble::StoreTrouble;
use trouble::Troubles;
pub use words_digest::WordsDigest;

/// The database's name within the home.
pub const FILE: &str = "state.db";

/// Maximum number of changes that wait for the writer. Further callers wait for a free slot.
const QUEUE_MAX: usize = 256;

#[derive(Clone, Default)]
pub struct StoreOptions {
    pub observer: Option<Observer>,
    /// Maximum size of the database, in pages. None means SQLite's own limit.
    pub pages_max: Option<u32>,
    /// Counts the work of reads, in units of [`STEPS_COUNTED`] steps of SQLite's virtual machine.
    pub read_steps: Option<Arc<AtomicU64>>,
    pub on_full: OnFull,
    /// Hears of a migration now and then, while it makes progress.
    pub migration: Option<MigrationObserver>,
}

/// Behaviour of a daemon that starts on a full disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    #[default]
    Fail,
    /// Waits until the disk has space.
    Wait,
}

/// Steps of SQLite's virtual machine per counted unit.
const STEPS_COUNTED: i32 = 10;

/// The database, cheap to clone; its threads end when the last clone is dropped.
#[derive(Clone)]
pub struct Store {
    writes: mpsc::Sender<threads::WriterJob>,
    reads: mpsc::Sender<threads::ReaderJob>,
    changes: Arc<Changes>,
    searches: Searches,
    /// Number of tasks that are about to write.
    writers: Arc<AtomicUsize>,
    long_works: LongWorks,
    written: WrittenBytes,
    commit_times: CommitTimes,
    troubles: Troubles,
    free_space: FreeSpace,
}

/// Free disk space when the store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeSpace {
    Enough,
    /// Only after the ballast file was deleted.
    Ballast,
}

impl Store {
    /// Opens `state.db` in `home`, creating or migrating it. On a full disk the ballast file is deleted
    /// first.
    pub fn open(home: &Path, options: &StoreOptions) -> Result<Self, OpenError> {
        let opened = match Self::open_within(home, options, FreeSpace::Enough) {
            Err(OpenError::Database { path, cause }) if is_full(home, &cause) => {
                if !Ballast::of(home).delete() {
                    return Err(OpenError::Full { path });
                }
                match Self::open_within(home, options, FreeSpace::Ballast) {
                    Err(OpenError::Database { path, cause }) if is_full(home, &cause) => {
                        Err(OpenError::Full { path })
                    }
                    opened => opened,
                }
            }
            opened => opened,
        };
        opened.map_err(|error| match error {
            OpenError::Database { path, cause } => OpenError::of_database_with_space(path, cause),
            other => other,
        })
    }

    /// Returns the state of the disk when the store was opened: enough space, or only without the ballast file.
    pub fn free_space(&self) -> FreeSpace {
        self.free_space
    }

    /// Opens the database. A failure leaves no empty one.
    fn open_within(
        home: &Path,
        options: &StoreOptions,
        free_space: FreeSpace,
    ) -> Result<Self, OpenError> {
        let path = home.join(FILE);
        let is_new = matches!(path.try_exists(), Ok(false));
        let opened = Self::open_or_create(home, options, free_space);
        if is_new && opened.is_err() {
            delete_unwritten(&path);
        }
        opened
    }

    fn open_or_create(
        home: &Path,
        options: &StoreOptions,
        free_space: FreeSpace,
    ) -> Result<Self, OpenError> {
        let path = home.join(FILE);
        let failed = |cause| OpenError::Database { path: path.clone(), cause };
        let broken = |error: std::io::Error| failed(StoreError::Broken(error.to_string()));

        refuse_emptied(&path)?;
        // SQLite gives its other files the permissions of this one.
        let mut create = OpenOptions::new();
        create.write(true).create(true).truncate(false).mode(0o600);
        create.open(&path).map_err(broken)?;
        let mut connection = connect(&path).map_err(|error| failed(error.into()))?;
        let set_size_limit = |connection: &Connection| match options.pages_max {
            Some(pages) => connection.pragma_update(None, "max_page_count", pages),
            None => Ok(()),
        };
        let version = schema::version(&connection).map_err(|error| failed(error.into()))?;
        schema::check_version(&path, version)?;
        if version > 0 {
            set_size_limit(&connection).map_err(|error| failed(error.into()))?;
        }
        let migrated = schema::migrate(&mut connection, version, options.migration.as_ref());
        migrated.map_err(|error| failed(error.into()))?;
        set_size_limit(&connection).map_err(|error| failed(error.into()))?;
        write_probe(&connection).map_err(|error| failed(error.into()))?;
        let mut reader = connect(&path).map_err(|error| failed(error.into()))?;
        if let Some(steps) = options.read_steps.clone() {
            let count_steps = move || {
                steps.fetch_add(1, Ordering::Relaxed);
                false
            };
            reader
                .progress_handler(STEPS_COUNTED, Some(count_steps))
                .map_err(|error| failed(error.into()))?;
        }
        let changes = Arc::new(Changes::default());
        let noted = Arc::clone(&changes);
        connection
            .update_hook(Some(move |_, _: &str, table: &str, row| noted.note(table, row)))
            .map_err(|error| failed(error.into()))?;

        let (writes, write_queue) = mpsc::channel(QUEUE_MAX);
        let (reads, read_queue) = mpsc::channel(QUEUE_MAX);
        let ballast = match free_space {
            FreeSpace::Enough => Ballast::create(home),
            FreeSpace::Ballast => Ballast::deleted(home),
        };
        let writers = Arc::<AtomicUsize>::default();
        let (observer, noted) = (options.observer.clone(), Arc::clone(&changes));
        let commit_times = CommitTimes::default();
        let times = commit_times.clone();
        // Its end is noted as that of each full disk: the ballast is back.
        let is_full = free_space == FreeSpace::Ballast;
        let troubles = Troubles::begun_in(is_full.then_some(StoreTrouble::Full));
        let writer = threads::Writer::new(connection, observer, noted, ballast, times)
            .noting(troubles.clone());
        let written = WrittenBytes::default();
        threads::spawn_writer(writer, write_queue, Arc::clone(&writers), written.clone())
            .map_err(broken)?;
        threads::spawn_reader(reader, read_queue).map_err(broken)?;
        let (searches, long_works) = (Searches::of(path.into()), LongWorks::default());
        Ok(Self {
            writes,
            reads,
            searches,
            changes,
            writers,
            long_works,
            written,
            commit_times,
            troubles,
            free_space,
        })
    }

    /// Makes one change, completely or not at all, in a transaction that it may share with others.
    /// `label` identifies it to observers. Once begun it is completed even if the caller is dropped.
    pub async fn write<T: Send + 'static>(
        &self,
        label: &'static str,
        sync: Sync,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let write = threads::Write::new(label, sync, work, sender);
        self.writes.send(threads::WriterJob::Write(write)).await.map_err(|_| writer_gone())?;
        receiver.await.map_err(|_| writer_gone())?
    }

    /// Makes one change, on the disk when this returns, and overwrites what it deletes or replaces.
    pub async fn write_securely<T: Send + 'static>(
        &self,
        label: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let securely = move |store: &Connection| {
            store.pragma_update(None, "secure_delete", true)?;
            let result = work(store);
            store.pragma_update(None, "secure_delete", false)?;
            result
        };
        self.write(label, Sync::Now, securely).await
    }

    /// Starts to track changed rows of these tables, for [`Self::changed`]. Everything committed earlier
    /// can be read once this has returned.
    pub async fn follow(&self, tables: &'static [&'static str]) -> Result<(), StoreError> {
        let changes = Arc::clone(&self.changes);
        let follow = move |_: &Connection| {
            changes.follow(tables);
            Ok(())
        };
        self.write("follow", Sync::Later, follow).await
    }

    /// Returns the rows of the tracked tables that were committed since the last call. None if they were
    /// too many to be kept.
    pub fn changed(&self) -> Option<BTreeSet<ChangedRow>> {
        self.changes.take()
    }

    /// Announces a task, such as a turn, that will write now and then. While there are many, a change
    /// that must be on the disk waits briefly for others that share its sync.
    pub fn announce_writer(&self) -> AnnouncedWriter {
        AnnouncedWriter::new(&self.writers)
    }

    /// Moves the whole write-ahead log into `state.db`, so that the file is complete by itself.
    pub async fn checkpoint(&self) {
        let (sender, receiver) = oneshot::channel();
        if self.writes.send(threads::WriterJob::Checkpoint(sender)).await.is_ok() {
            receiver.await.ok();
        }
    }

    /// Rewrites the database without free pages, and so that it can return them from now on. Everything
    /// else waits meanwhile, and the disk needs space for a second copy.
    pub async fn rewrite(&self) -> Result<(), StoreError> {
        let (sender, receiver) = oneshot::channel();
        let job = threads::WriterJob::Rewrite(sender, self.long_work());
        self.writes.send(job).await.map_err(|_| writer_gone())?;
        receiver.await.map_err(|_| writer_gone())?
    }

    /// Reads one consistent state.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let read = threads::ReaderJob::Read(Box::new(move |connection| {
            let state = connection.unchecked_transaction().and_then(|state| work(&state));
            sender.send(state.map_err(StoreError::from)).ok();
        }));
        self.reads.send(read).await.map_err(|_| writer_gone())?;
        let result = receiver.await.map_err(|_| writer_gone())?;
        self.troubles.note_read(&result);
        result
    }

    /// Reads one consistent state, on a connection of its own, so that work which may read the whole
    /// database does not delay other reads. It is interrupted after a second, and when the caller is
    /// dropped.
    pub async fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let result = self.searches.run(work).await;
        self.troubles.note_read(&result);
        result
    }

    /// Moves the log into `state.db` and closes all connections, the writer's last: SQLite removes its other files when the
    /// last one closes. Every later use fails. Without this call, a process would exit before its threads close them.
    pub async fn close(&self) {
        self.checkpoint().await;
        self.searches.close_idle();
        let (sender, receiver) = oneshot::channel();
        if self.reads.send(threads::ReaderJob::Close(sender)).await.is_ok() {
            receiver.await.ok();
        }
        let (sender, receiver) = oneshot::channel();
        if self.writes.send(threads::WriterJob::Close(sender)).await.is_ok() {
            receiver.await.ok();
        }
    }

    /// Closes the connections that are kept for the next search.
    pub fn close_idle(&self) {
        self.searches.close_idle();
    }
}

/// Writes a page, so that a full disk is detected when the store is opened, and not at the first message.
fn write_probe(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", schema::version(connection)?)
}

fn writer_gone() -> StoreError {
    StoreError::Broken("its thread has ended".to_owned())
}
