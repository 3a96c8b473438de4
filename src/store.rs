//! The one database: a writer thread that commits many changes at once, a reader thread, the
//! schema and its migrations, and the lock that keeps a second daemon out. The SQL of a noun lives
//! with the noun; there is none of theirs here.

mod pages;
mod threads;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::{mpsc, oneshot};

pub use pages::Pages;

/// The database's name within the home.
pub const FILE: &str = "state.db";

/// Changes waiting for the writer; whoever comes when it is full waits for its turn.
const QUEUE_MAX: usize = 256;

/// The file's name within the home.
const BALLAST: &str = "ballast";

/// What SQLite needs at least to open a database: the index of its write-ahead log, and the log's first
/// pages.
const OPEN_BYTES: usize = 64 * 1024;

/// Kept on disk to be freed when the disk is full, so that what runs can still be ended tidily.
const BALLAST_BYTES: usize = 256 * 1024;

/// How long the disk must have had room again before it is taken.
const BALLAST_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// One script per schema version, in order; a script is never changed after a release.
const MIGRATIONS: &[&str] = &[
    include_str!("store/schema-1.sql"),
    include_str!("store/schema-2.sql"),
    include_str!("store/schema-3.sql"),
    include_str!("store/schema-4.sql"),
    include_str!("store/schema-5.sql"),
    include_str!("store/schema-6.sql"),
    include_str!("store/schema-7.sql"),
    include_str!("store/schema-8.sql"),
];

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
    /// The names of the changes that it holds.
    pub labels: &'a [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Before,
    After,
}

#[derive(Clone, Default)]
pub struct Options {
    pub observer: Option<Observer>,
    /// The largest database, in pages of 4 KiB; none is SQLite's own bound.
    pub pages_max: Option<u32>,
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

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full")]
    Full,
    #[error("the database is damaged ({0})")]
    Corrupt(String),
    #[error("the database failed ({0})")]
    Broken(String),
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
    Newer { path: PathBuf, found: usize, known: usize },
    #[error(
        "cannot open {}: the disk is full. Make room on it; nothing is lost, and I go on from there",
        path.display()
    )]
    Full { path: PathBuf },
    #[error("cannot open {}: {source}. Restore it from a backup, or move it away to start afresh", path.display())]
    Database { path: PathBuf, source: StoreError },
}

/// The claim to a home; let go of when dropped, also by a crash.
pub struct HomeLock {
    _file: File,
}

impl HomeLock {
    /// Creates the home if need be (readable by its owner only) and claims it.
    pub fn claim(home: &Path) -> Result<Self, OpenError> {
        let broken = |source| OpenError::Home { path: home.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(broken)?;
        let path = home.join("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(broken)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
                return Err(OpenError::Locked { home: home.to_owned(), pid });
            }
            Err(fs::TryLockError::Error(source)) => return Err(broken(source)),
        }
        // The lock holds without it; a full disk may not take it.
        if let Err(error) = fs::write(&path, std::process::id().to_string()) {
            tracing::warn!(%error, "Cannot write down who holds the home");
        }
        Ok(Self { _file: file })
    }
}

/// The database, cheap to clone; its threads end when the last clone is dropped.
#[derive(Clone)]
pub struct Store {
    writes: mpsc::Sender<threads::Job>,
    reads: mpsc::Sender<threads::Read>,
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
    pub fn open(home: &Path, options: &Options) -> Result<Self, OpenError> {
        match Self::open_within(home, options, Room::Enough) {
            Err(OpenError::Database { path, source }) if is_full(home, &source) => {
                let mut ballast = Ballast { path: home.join(BALLAST), gone: None };
                if !ballast.drop_overboard() {
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

    fn open_within(home: &Path, options: &Options, room: Room) -> Result<Self, OpenError> {
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
        let version: u32 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(|error| failed(error.into()))?;
        if version > 0 {
            limit(&connection).map_err(|error| failed(error.into()))?;
        }
        match migrate(&mut connection).map_err(|error| failed(error.into()))? {
            found if found > MIGRATIONS.len() => {
                return Err(OpenError::Newer { path, found, known: MIGRATIONS.len() });
            }
            _ => {}
        }
        limit(&connection).map_err(|error| failed(error.into()))?;
        let reader = connect(&path).map_err(|error| failed(error.into()))?;

        let (writes, queue) = mpsc::channel(QUEUE_MAX);
        let (reads, questions) = mpsc::channel(QUEUE_MAX);
        let ballast = match room {
            Room::Enough => Ballast::lay(home),
            Room::Ballast => Ballast { path: home.join(BALLAST), gone: Some(Instant::now()) },
        };
        threads::spawn_writer(connection, queue, options.observer.clone(), ballast)
            .map_err(broken)?;
        threads::spawn_reader(reader, questions).map_err(broken)?;
        Ok(Self { writes, reads, room })
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
        self.writes.send(threads::Job::Write(write)).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// Moves all of the write-ahead log into `state.db`, so that it is whole by itself.
    pub async fn checkpoint(&self) {
        let (tell, told) = oneshot::channel();
        if self.writes.send(threads::Job::Checkpoint(tell)).await.is_ok() {
            told.await.ok();
        }
    }

    /// Writes the database anew, without free pages and able to give them back from now on. Everything else
    /// waits meanwhile, and the disk needs room for a second copy.
    pub async fn rewrite(&self) -> Result<(), StoreError> {
        let (tell, told) = oneshot::channel();
        self.writes.send(threads::Job::Rewrite(tell)).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// Reads one consistent state.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, told) = oneshot::channel();
        let read: threads::Read = Box::new(move |connection| {
            let state = connection.unchecked_transaction().and_then(|state| work(&state));
            tell.send(state.map_err(StoreError::from)).ok();
        });
        self.reads.send(read).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
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

/// Whether the store could not be opened because the disk is full. SQLite has other words for some of it.
fn is_full(home: &Path, source: &StoreError) -> bool {
    match source {
        StoreError::Full => true,
        StoreError::Corrupt(_) => false,
        StoreError::Broken(_) | StoreError::Change(_) => {
            let probe = home.join("room");
            let written = fs::write(&probe, vec![0x5a; OPEN_BYTES]);
            fs::remove_file(&probe).ok();
            let kind = written.err().map(|error| error.kind());
            matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
        }
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // Only in a database that is still empty.
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -512)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Brings the schema up to date; the version that was found, if that is newer than ours.
fn migrate(connection: &mut Connection) -> rusqlite::Result<usize> {
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let found = found as usize;
    for (version, script) in (1..).zip(MIGRATIONS).skip(found) {
        let step = connection.transaction()?;
        step.execute_batch(script)?;
        step.pragma_update(None, "user_version", version)?;
        step.commit()?;
    }
    Ok(found)
}

/// A file that takes room until the room is needed.
struct Ballast {
    path: PathBuf,
    /// Since when it is overboard.
    gone: Option<Instant>,
}

impl Ballast {
    fn lay(home: &Path) -> Self {
        let mut ballast = Self { path: home.join(BALLAST), gone: None };
        ballast.take_in();
        ballast
    }

    fn take_in(&mut self) {
        let mut create = OpenOptions::new();
        create.write(true).create_new(true).mode(0o600);
        self.gone = None;
        if let Ok(mut file) = create.open(&self.path)
            && let Err(error) = file.write_all(&vec![0x5a; BALLAST_BYTES])
        {
            tracing::warn!(%error, "No room for the ballast file");
            fs::remove_file(&self.path).ok();
            self.gone = Some(Instant::now());
        }
    }

    /// Returns true if there was some.
    fn drop_overboard(&mut self) -> bool {
        let is_freed = fs::remove_file(&self.path).is_ok();
        if is_freed {
            tracing::error!("The disk is full; freed the ballast file. Make room");
            self.gone = Some(Instant::now());
        }
        is_freed
    }

    /// Called while there is room: takes it in again, after a while.
    fn ease(&mut self) {
        if self.gone.is_some_and(|gone| gone.elapsed() > BALLAST_AGAIN_AFTER) {
            self.take_in();
        }
    }
}
