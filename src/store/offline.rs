//! Reads a store that this process has not opened: of a home without a daemon, or beside the daemon that has it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::emptied::{file_beside, has_log, refuse_emptied, was_used};
use super::header::header_damage;
use super::lost_log::{INDEX_PART, find_lost_log};
use super::{FILE, OpenError, StoreError, schema};

/// A daemon's commit holds the database for less.
const BUSY_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum wait until a copy begins, while other programs have the database locked.
const COPY_WAIT_MAX: Duration = Duration::from_secs(60);

/// The beginnings of the faults of an FTS5 index whose own tables can be read (`fts5IntegrityMethod` and
/// `fts5IndexCorruptRowid` of SQLite).
const BROKEN_INDEX: [&str; 2] = ["malformed inverted index for FTS5 table", "fts5: corruption"];

/// Describes a database of another program.
const NO_STORE: &str = "it is not a store of Peacrab";

/// Returns true if there is a store in a home, or should be one: only its log is there, or the home was in use, or this
/// account cannot know.
pub fn has_store(home: &Path) -> bool {
    let path = home.join(FILE);
    !matches!(path.try_exists(), Ok(false)) || has_log(&path) || was_used(home)
}

/// Returns a function that makes the error of a failure of the database at this path.
fn database_error(path: &Path) -> impl Fn(rusqlite::Error) -> OpenError + use<> {
    let path: PathBuf = path.to_owned();
    move |error| OpenError::of_database(path.clone(), error.into())
}

/// Reads from a home without claiming or changing it, whether or not a daemon runs there. None if nothing
/// can be read.
pub fn try_read<T>(
    home: &Path,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Option<T> {
    work(&open_unchanged(&home.join(FILE)).ok()?).ok()
}

/// Returns true if there is nothing to read but the database itself, and nobody has it open. A start that fails on a full
/// disk leaves an empty log and a stub of its index behind.
fn stands_alone(database: &Path) -> bool {
    let size = |ending| file_beside(database, ending).metadata().map(|file| file.len()).ok();
    match size("-wal") {
        None => true,
        Some(log) => log == 0 && size("-shm").is_some_and(|index| index < INDEX_PART),
    }
}

/// Opens a database so that no file is made beside it.
fn open_unchanged(path: &Path) -> rusqlite::Result<Connection> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let url = url::Url::from_file_path(absolute);
    let mut url = url.map_err(|()| rusqlite::Error::InvalidPath(path.to_owned()))?;
    if stands_alone(path) {
        // SQLite would create files that only a daemon needs.
        url.set_query(Some("immutable=1"));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(url.as_str(), flags)?;
    connection.busy_timeout(BUSY_TIME_MAX)?;
    Ok(connection)
}

/// Reads the store of a home without a running daemon. None if there is no store yet. `work` expects the newest schema:
/// if it fails in a store that no daemon has migrated yet, the error says so.
pub fn read_offline<T>(
    home: &Path,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<Option<T>, OpenError> {
    let path = home.join(FILE);
    if !has_store(home) {
        return Ok(None);
    }
    refuse_emptied(&path)?;
    let open = || {
        if find_lost_log(home).is_some() {
            // An empty log in the place of the lost one would hide the loss from the next start.
            return open_unchanged(&path);
        }
        let store = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        store.busy_timeout(BUSY_TIME_MAX)?;
        Ok::<_, rusqlite::Error>(store)
    };
    let store = open().map_err(database_error(&path))?;
    work(&store).map(Some).map_err(|error| {
        let (cause, known) = (StoreError::from(error), schema::newest());
        match schema::version(&store) {
            Ok(found)
                if matches!(cause, StoreError::Change(_))
                    && (schema::BASE_VERSION..known).contains(&found) =>
            {
                OpenError::NotMigrated { path, found, known }
            }
            _ => OpenError::of_database(path, cause),
        }
    })
}

/// Returns an error if a version of the program whose newest schema is `known` cannot open the store of a home because of its
/// schema. A missing store is fine.
pub fn check_schema(home: &Path, known: u32) -> Result<(), OpenError> {
    let path = home.join(FILE);
    if !has_store(home) {
        return Ok(());
    }
    refuse_emptied(&path)?;
    let read = || schema::version(&open_unchanged(&path)?);
    schema::check_version_for(known, &path, read().map_err(database_error(&path))?)
}

/// Returns an error if the store of a home has an older schema, which a start of the daemon brings up to date. A missing
/// store is fine.
pub fn refuse_unmigrated(home: &Path) -> Result<(), OpenError> {
    let path = home.join(FILE);
    if !has_store(home) {
        return Ok(());
    }
    refuse_emptied(&path)?;
    let read = || schema::version(&open_unchanged(&path)?);
    let (found, known) = (read().map_err(database_error(&path))?, schema::newest());
    match (schema::BASE_VERSION..known).contains(&found) {
        true => Err(OpenError::NotMigrated { path, found, known }),
        false => Ok(()),
    }
}

/// Checks the store of a home: its schema, and the structure of the whole file. Changes nothing.
///
/// # Errors
/// The database is damaged, or its schema is not one that this version knows.
pub fn check_integrity(home: &Path) -> Result<(), OpenError> {
    check_file_integrity(&home.join(FILE)).map(drop)
}

/// The same for a database of any name. Returns the version of its schema.
pub fn check_file_integrity(path: &Path) -> Result<u32, OpenError> {
    refuse_emptied(path)?;
    let damaged = |why| OpenError::of_database(path.to_owned(), StoreError::Corrupt(why));
    let read = || {
        let store = open_unchanged(path)?;
        let version = schema::version(&store)?;
        Ok::<_, rusqlite::Error>((version, first_fault(&store)?))
    };
    let (version, found) = read().map_err(database_error(path))?;
    if found != "ok" {
        return Err(damaged(found));
    }
    if version == 0 {
        return Err(damaged(NO_STORE.to_owned()));
    }
    schema::check_version(path, version)?;
    Ok(version)
}

/// Copies the store of a home as it is now into a new file, also while a daemon writes it, and checks the structure of the
/// whole copy. Returns the version of its schema.
///
/// # Errors
/// The store is damaged ([`OpenError::Damaged`]), or cannot be copied.
pub fn snapshot(home: &Path, into: &Path) -> Result<u32, OpenError> {
    let path = home.join(FILE);
    refuse_emptied(&path)?;
    let from = open_unchanged(&path).map_err(database_error(&path))?;
    let until = Instant::now() + COPY_WAIT_MAX;
    let not_written =
        |error: rusqlite::Error| OpenError::Copy { path: into.to_owned(), cause: error.into() };
    // A damaged page is one of the store; the copy is the one that takes space.
    let not_copied = |error: rusqlite::Error| match StoreError::from(error) {
        cause @ (StoreError::Corrupt(_) | StoreError::Busy(_)) => {
            OpenError::of_database(path.clone(), cause)
        }
        cause => match header_damage(&path) {
            Some(cause) => OpenError::of_database(path.clone(), cause),
            None => OpenError::Copy { path: into.to_owned(), cause },
        },
    };
    let mut to = Connection::open(into).map_err(not_written)?;
    let copied = Backup::new(&from, &mut to).and_then(|copy| {
        // All pages in one step: the copy is of one moment, and no write of the daemon makes it begin anew.
        loop {
            match copy.step(-1)? {
                StepResult::Done => return Ok(true),
                _ if Instant::now() >= until => return Ok(false),
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    });
    if !copied.map_err(not_copied)? {
        let cause = StoreError::Busy(format!("for {} s", COPY_WAIT_MAX.as_secs()));
        return Err(OpenError::of_database(path, cause));
    }
    let cause = match finish_copy(&to).map_err(StoreError::from) {
        Ok((version, found)) if version > 0 && found == "ok" => return Ok(version),
        Ok((0, _)) => StoreError::Corrupt(NO_STORE.to_owned()),
        Ok((_, found)) => StoreError::Corrupt(found),
        Err(cause) => cause,
    };
    // The disk of the copy may be the one that fails.
    if (matches!(cause, StoreError::Corrupt(_)) || header_damage(&path).is_some())
        && let Err(damaged @ OpenError::Damaged { .. }) = check_integrity(home)
    {
        return Err(damaged);
    }
    Err(OpenError::Copy { path: into.to_owned(), cause })
}

/// Makes a copy complete by itself. Returns the version of its schema, and the first fault of its structure or `ok`.
fn finish_copy(copy: &Connection) -> rusqlite::Result<(u32, String)> {
    // It needs no log of its own.
    copy.pragma_update(None, "journal_mode", "delete")?;
    Ok((schema::version(copy)?, first_fault(copy)?))
}

/// Checks the structure of a whole database. Returns its first fault, or `ok`. A broken search index is no fault: it is
/// filled again from what is stored.
fn first_fault(store: &Connection) -> rusqlite::Result<String> {
    // There is one such index, and one fault of it.
    let mut check = store.prepare("PRAGMA quick_check(2)")?;
    let mut faults = check.query([])?;
    while let Some(row) = faults.next()? {
        let fault: String = row.get(0)?;
        if !BROKEN_INDEX.iter().any(|words| fault.starts_with(words)) {
            return Ok(fault);
        }
        tracing::warn!(%fault, "The search index is broken. A search that meets this has it filled again");
    }
    Ok("ok".to_owned())
}

/// Migrates the store of a home in which nobody runs, and makes one change in one transaction. The file is complete by
/// itself afterwards.
pub fn change_offline<T>(
    home: &Path,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, OpenError> {
    let path = home.join(FILE);
    let failed = database_error(&path);
    let mut store = Connection::open(&path).map_err(&failed)?;
    let found = schema::version(&store).map_err(&failed)?;
    schema::check_version(&path, found)?;
    schema::migrate(&mut store, found, None).map_err(&failed)?;
    let change = || {
        let transaction = store.transaction()?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok::<_, rusqlite::Error>(done)
    };
    let done = change().map_err(&failed)?;
    store.pragma_update(None, "journal_mode", "delete").map_err(&failed)?;
    Ok(done)
}

/// Rewrites the store of a home in which nobody runs without its free space, which may have former versions of rows.
pub fn rewrite_offline(home: &Path) -> Result<(), OpenError> {
    let path = home.join(FILE);
    let rewritten = Connection::open(&path).and_then(|store| store.execute_batch("VACUUM"));
    rewritten.map_err(database_error(&path))
}
