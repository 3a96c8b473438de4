//! The one database: a writer thread that commits many changes at once, a reader thread, searches beside
//! both, the schema and its migrations, and the lock that keeps a second daemon out. The SQL of a noun lives
//! with the noun; there is none of theirs here.

mod ballast;
mod changes;
mod columns;
mod lock;
mod pages;
mod schema;
mod savepoint;
mod threads;
mod slices;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use ballast::{Ballast, is_full};
pub use changes::ChangedRow;
use changes::Changes;
pub use columns::{Json, Legible, Time};
pub(crate) use columns::{integer_columns, text_columns};
pub use lock::HomeLock;
pub use pages::Pages;
pub use savepoint::apart;
pub use slices::{SLICE, slice};
pub use threads::AboutToWrite;

/// The database's name within the home.
pub const FILE: &str = "state.db";

/// Bytes of a page of a new home. Each change writes all of the pages that it touches, and most of what
/// a turn touches is a short row in each of many tables and indices: a quarter of SQLite's usual size
/// means a quarter of the bytes.
const PAGE_BYTES: u32 = 1_024;

/// The write-ahead log is folded into the database when it is about so long. Pages that change again
/// and again are written there once each time.
const LOG_BYTES: u32 = 4 << 20;

/// Statements that each connection keeps prepared: more than there are in the way of a message.
const STATEMENTS_KEPT: usize = 128;

/// Changes waiting for the writer; whoever comes when it is full waits for its turn.
const QUEUE_MAX: usize = 256;

/// The longest that a search may take. A model waits for it that can search for something narrower.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(1);

/// Searches that run at once; later ones wait. With a core for each, none of them slows another down much.
const SEARCHES_MAX: usize = 2;

/// SQLite's steps after which a search looks at its deadline; one of them may compare a text of a megabyte.
const STEPS_BETWEEN_LOOKS: i32 = 100;

/// Whether a change must be on the disk when `write` returns, or may be with a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    Now,
    Later,
}

/// Told of every commit, on the writer thread, just before and just after it.
pub type Observer = Arc<dyn Fn(Moment<'_>) + Send + std::marker::Sync>;

#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Counted from one since the store was opened.
    pub commit: u64,
    pub phase: Phase,
    /// Whether it is on the disk once it is made, and all before it.
    pub sync: Sync,
    /// The names of the changes that it holds.
    pub labels: &'a [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Before,
    After,
}

#[derive(Clone, Default)]
pub struct StoreOptions {
    pub observer: Option<Observer>,
    /// The largest database, in pages; none is SQLite's own bound.
    pub pages_max: Option<u32>,
    /// Counts the work of reads, in steps of SQLite's virtual machine, by [`STEPS_COUNTED`].
    pub read_steps: Option<Arc<AtomicU64>>,
    pub on_full: OnFull,
}

/// What a daemon does that finds no room at all when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    #[default]
    Fail,
    /// Waits until somebody has made room.
    Wait,
}

/// Steps of SQLite's virtual machine that are counted as one.
const STEPS_COUNTED: i32 = 10;

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full")]
    Full,
    #[error("the database is damaged ({0})")]
    Corrupt(String),
    #[error("the database failed ({0})")]
    Broken(String),
    /// A search that has reached its deadline.
    #[error("the search took longer than {SEARCH_TIME_MAX:?}")]
    TooSlow,
    /// The one change or read failed, for a reason of its own: a constraint, or a row that cannot be
    /// read. Others go on.
    #[error("the database failed ({0})")]
    Change(String),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt(error.to_string())
            }
            Some(ErrorCode::OperationInterrupted) => Self::TooSlow,
            // SQLite's general error: a text that is no JSON, a trigger that says no.
            None
            | Some(
                ErrorCode::ConstraintViolation
                | ErrorCode::TypeMismatch
                | ErrorCode::TooBig
                | ErrorCode::Unknown,
            ) => Self::Change(error.to_string()),
            Some(_) => Self::Broken(error.to_string()),
        }
    }
}

/// Why a home cannot be used; each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use the home {}: {source}", path.display())]
    Home { path: PathBuf, source: std::io::Error },
    #[error("another peacrab is running on {} (process {pid}); stop it first, or give this one its own --home", home.display())]
    Locked { home: PathBuf, pid: String },
    #[error(
        "{} was written by a newer peacrab (schema {found}, this one knows {known}); install that version again",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(
        "{} was written by a preview of peacrab (schema {found}) that this one cannot read; move it away to start afresh, your workspace stays as it is",
        path.display()
    )]
    Older { path: PathBuf, found: u32 },
    #[error(
        "cannot open {}: the disk is full. Make room on it; nothing is lost, and I go on from there",
        path.display()
    )]
    Full { path: PathBuf },
    #[error("cannot open {}: {source}. Restore it from a backup, or move it away to start afresh", path.display())]
    Database { path: PathBuf, source: StoreError },
}

/// The database, cheap to clone; its threads end when the last clone is dropped.
#[derive(Clone)]
pub struct Store {
    writes: mpsc::Sender<threads::WriterJob>,
    reads: mpsc::Sender<threads::ReadWork>,
    changes: Arc<Changes>,
    path: Arc<Path>,
    searches: Arc<Semaphore>,
    /// How many are about to write.
    writers: Arc<AtomicUsize>,
    room: Room,
}

/// Whether the disk had room for the store when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Enough,
    /// Only once the ballast file was freed.
    Ballast,
}

impl Store {
    /// Opens `state.db` in `home`, creating or migrating it. On a full disk the ballast file is freed for
    /// that.
    pub fn open(home: &Path, options: &StoreOptions) -> Result<Self, OpenError> {
        match Self::open_within(home, options, Room::Enough) {
            Err(OpenError::Database { path, source }) if is_full(home, &source) => {
                if !Ballast::of(home).drop_overboard() {
                    return Err(OpenError::Full { path });
                }
                match Self::open_within(home, options, Room::Ballast) {
                    Err(OpenError::Database { path, source }) if is_full(home, &source) => {
                        Err(OpenError::Full { path })
                    }
                    opened => opened,
                }
            }
            opened => opened,
        }
    }

    /// Whether the disk had room when it was opened.
    pub fn room(&self) -> Room {
        self.room
    }

    fn open_within(home: &Path, options: &StoreOptions, room: Room) -> Result<Self, OpenError> {
        let path = home.join(FILE);
        let failed = |source| OpenError::Database { path: path.clone(), source };
        let broken = |error: std::io::Error| failed(StoreError::Broken(error.to_string()));

        // SQLite gives the files beside it the permissions of this one.
        let mut create = OpenOptions::new();
        create.write(true).create(true).truncate(false).mode(0o600);
        create.open(&path).map_err(broken)?;
        let mut connection = connect(&path).map_err(|error| failed(error.into()))?;
        let limit = |connection: &Connection| match options.pages_max {
            Some(pages) => connection.pragma_update(None, "max_page_count", pages),
            None => Ok(()),
        };
        let found = schema::version(&connection).map_err(|error| failed(error.into()))?;
        match found {
            0 => {}
            1..schema::BASE_VERSION => return Err(OpenError::Older { path, found }),
            _ if found > schema::newest() => {
                return Err(OpenError::Newer { path, found, known: schema::newest() });
            }
            _ => limit(&connection).map_err(|error| failed(error.into()))?,
        }
        schema::migrate(&mut connection, found).map_err(|error| failed(error.into()))?;
        limit(&connection).map_err(|error| failed(error.into()))?;
        let mut reader = connect(&path).map_err(|error| failed(error.into()))?;
        if let Some(steps) = options.read_steps.clone() {
            let count = move || {
                steps.fetch_add(1, Ordering::Relaxed);
                false
            };
            reader
                .progress_handler(STEPS_COUNTED, Some(count))
                .map_err(|error| failed(error.into()))?;
        }
        let changes = Arc::new(Changes::default());
        let noted = Arc::clone(&changes);
        connection
            .update_hook(Some(move |_, _: &str, table: &str, row| noted.note(table, row)))
            .map_err(|error| failed(error.into()))?;

        let (writes, queue) = mpsc::channel(QUEUE_MAX);
        let (reads, questions) = mpsc::channel(QUEUE_MAX);
        let ballast = match room {
            Room::Enough => Ballast::lay(home),
            Room::Ballast => Ballast::overboard(home),
        };
        let writers = Arc::<AtomicUsize>::default();
        let (observer, noted) = (options.observer.clone(), Arc::clone(&changes));
        let writer = threads::Writer::new(connection, observer, noted, ballast);
        threads::spawn_writer(writer, queue, Arc::clone(&writers)).map_err(broken)?;
        threads::spawn_reader(reader, questions).map_err(broken)?;
        let searches = Arc::new(Semaphore::new(SEARCHES_MAX));
        Ok(Self { writes, reads, path: path.into(), searches, changes, writers, room })
    }

    /// Makes one change in a transaction that it may share with others; all of it or nothing.
    /// `label` is what observers know it by. Once begun it is made even if the caller goes away.
    pub async fn write<T: Send + 'static>(
        &self,
        label: &'static str,
        sync: Sync,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, told) = oneshot::channel();
        let write = threads::Write::new(label, sync, work, tell);
        self.writes.send(threads::WriterJob::Write(write)).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// Notes from now on which rows of these tables change, for [`Self::changed`]. All that was committed
    /// before can be read once this has returned.
    pub async fn follow(&self, tables: &'static [&'static str]) -> Result<(), StoreError> {
        let changes = Arc::clone(&self.changes);
        let follow = move |_: &Connection| {
            changes.follow(tables);
            Ok(())
        };
        self.write("follow", Sync::Later, follow).await
    }

    /// The rows of the followed tables that were committed since this was last asked; none if they were
    /// too many to be kept.
    pub fn changed(&self) -> Option<BTreeSet<ChangedRow>> {
        self.changes.take()
    }

    /// Says that somebody, a turn, will write now and then. While there are many, a change that must be on
    /// the disk waits a moment for others that share its sync.
    pub fn about_to_write(&self) -> AboutToWrite {
        AboutToWrite::new(&self.writers)
    }

    /// Moves all of the write-ahead log into `state.db`, so that it is whole by itself.
    pub async fn checkpoint(&self) {
        let (tell, told) = oneshot::channel();
        if self.writes.send(threads::WriterJob::Checkpoint(tell)).await.is_ok() {
            told.await.ok();
        }
    }

    /// Writes the database anew, without free pages and able to give them back from now on. Everything else
    /// waits meanwhile, and the disk needs room for a second copy.
    pub async fn rewrite(&self) -> Result<(), StoreError> {
        let (tell, told) = oneshot::channel();
        self.writes.send(threads::WriterJob::Rewrite(tell)).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// Reads one consistent state.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, told) = oneshot::channel();
        let read: threads::ReadWork = Box::new(move |connection| {
            let state = connection.unchecked_transaction().and_then(|state| work(&state));
            tell.send(state.map_err(StoreError::from)).ok();
        });
        self.reads.send(read).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// Reads one consistent state, on a connection of its own: for work that may look at all that is
    /// stored, and must not delay other reads. It is interrupted after a second, and when the caller goes
    /// away.
    pub async fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.searches).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (path, gone_away) = (Arc::clone(&self.path), CancellationToken::new());
        let _interrupt = gone_away.clone().drop_guard();
        let search = move || {
            let _permit = permit;
            let mut connection = connect(&path)?;
            let deadline = Instant::now() + SEARCH_TIME_MAX;
            let is_over = move || Instant::now() >= deadline || gone_away.is_cancelled();
            connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over))?;
            let state = connection.unchecked_transaction()?;
            work(&state).map_err(StoreError::from)
        };
        let searched = AbortOnDropHandle::new(tokio::task::spawn_blocking(search)).await;
        searched.map_err(|error| StoreError::Broken(format!("a search ended ({error})")))?
    }
}

/// Reads from a home without claiming or changing it, whether or not a daemon runs there. None if
/// there is nothing that can be read.
pub fn look<T>(home: &Path, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Option<T> {
    let path = std::path::absolute(home.join(FILE)).ok()?;
    let mut url = url::Url::from_file_path(&path).ok()?;
    if !path.with_extension("db-wal").exists() {
        // SQLite would make the files that only a daemon needs.
        url.set_query(Some("immutable=1"));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(url.as_str(), flags).ok()?;
    work(&connection).ok()
}

fn gone() -> StoreError {
    StoreError::Broken("its thread has ended".to_owned())
}

/// Reads the store of a home on which no daemon runs; none if there is no store yet.
pub fn peek<T>(
    home: &Path,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    let path = home.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let store = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    store.busy_timeout(Duration::from_secs(5))?;
    Ok(Some(work(&store)?))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // Plans do not depend on what is bound: else each binding has cached statements prepared anew.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // These two are of a database that is still empty; of one that is there already, they stay as they are.
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_BYTES / page.max(1))?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -512)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(connection)
}
