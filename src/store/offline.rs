//! Access to a database that this process has not opened as a [`super::Store`]: without a daemon, or next to the one
//! that runs.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{FILE, OpenError, StoreError, schema};

/// Maximum wait for a locked database. A daemon's commit takes less.
const BUSY_TIME_MAX: Duration = Duration::from_secs(5);

/// Reads from a home without locking or changing it, also while a daemon runs there. None if nothing can be
/// read.
pub fn look<T>(home: &Path, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Option<T> {
    work(&open_unchanged(&home.join(FILE)).ok()?).ok()
}

/// Opens a database without creating files next to it.
fn open_unchanged(path: &Path) -> rusqlite::Result<Connection> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let url = url::Url::from_file_path(absolute);
    let mut url = url.map_err(|()| rusqlite::Error::InvalidPath(path.to_owned()))?;
    if !path.with_extension("db-wal").exists() {
        // Otherwise SQLite would create a log and its index, which only a daemon needs.
        url.set_query(Some("immutable=1"));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(url.as_str(), flags)?;
    connection.busy_timeout(BUSY_TIME_MAX)?;
    Ok(connection)
}

/// Reads the store of a home without a running daemon. None if there is no store yet.
pub fn peek<T>(
    home: &Path,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    let path = home.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let store = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    store.busy_timeout(BUSY_TIME_MAX)?;
    Ok(Some(work(&store)?))
}

/// Checks the store of a home: its schema, and the structure of the whole file. Changes nothing.
///
/// # Errors
/// The database is damaged, or its schema is not one that this version knows.
pub fn examine(home: &Path) -> Result<(), OpenError> {
    examine_file(&home.join(FILE)).map(drop)
}

/// Checks a database of any name, as [`examine`] does. Returns the version of its schema.
pub fn examine_file(path: &Path) -> Result<u32, OpenError> {
    let database_error = |source| OpenError::Database { path: path.to_owned(), source };
    let check = || {
        let store = open_unchanged(path)?;
        let version = schema::version(&store)?;
        let check_result: String =
            store.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok::<_, rusqlite::Error>((version, check_result))
    };
    let (version, check_result) = check().map_err(|error| database_error(error.into()))?;
    if check_result != "ok" {
        return Err(database_error(StoreError::Corrupt(check_result)));
    }
    if version == 0 {
        return Err(database_error(StoreError::Corrupt("it is not a store of Peacrab".to_owned())));
    }
    schema::check_version(path, version)?;
    Ok(version)
}

/// Copies the current state of a home's store into a new file, also while a daemon writes to it. Returns the version of
/// its schema.
pub fn snapshot(home: &Path, into: &Path) -> Result<u32, OpenError> {
    let path = home.join(FILE);
    let database_error =
        |error: rusqlite::Error| OpenError::Database { path: path.clone(), source: error.into() };
    let source = open_unchanged(&path).map_err(database_error)?;
    let mut target = Connection::open(into).map_err(database_error)?;
    let result = Backup::new(&source, &mut target).and_then(|copy| {
        // All pages in one step: the copy shows one state, and a write of the daemon cannot restart it.
        loop {
            match copy.step(-1)? {
                StepResult::Done => return Ok(()),
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    });
    result.map_err(database_error)?;
    // The copy is then complete without a log.
    target.pragma_update(None, "journal_mode", "delete").map_err(database_error)?;
    schema::version(&target).map_err(database_error)
}

/// Migrates the store of a home without a running daemon, and makes one change in one transaction. The file is then
/// complete without a log.
pub fn change_offline<T>(
    home: &Path,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, OpenError> {
    let path = home.join(FILE);
    let database_error =
        |error: rusqlite::Error| OpenError::Database { path: path.clone(), source: error.into() };
    let mut store = Connection::open(&path).map_err(database_error)?;
    let found = schema::version(&store).map_err(database_error)?;
    schema::check_version(&path, found)?;
    schema::migrate(&mut store, found).map_err(database_error)?;
    let change = || {
        let transaction = store.transaction()?;
        let result = work(&transaction)?;
        transaction.commit()?;
        Ok(result)
    };
    let result = change().map_err(database_error)?;
    store.pragma_update(None, "journal_mode", "delete").map_err(database_error)?;
    Ok(result)
}

/// Rewrites the store of a home without a running daemon, so that its free space with former versions of rows is gone.
pub fn rewrite_offline(home: &Path) -> Result<(), OpenError> {
    let path = home.join(FILE);
    let rewritten = Connection::open(&path).and_then(|store| store.execute_batch("VACUUM"));
    rewritten.map_err(|error| OpenError::Database { path, source: error.into() })
}
