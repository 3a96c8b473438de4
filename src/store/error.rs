//! Errors of the store, sorted by who acts next, and the reasons why a home cannot be opened.

use std::path::PathBuf;

use rusqlite::{ErrorCode, ffi};

use super::lock_holder::{LockHolder, StartWork};
use super::searches::SEARCH_TIME_MAX;

/// The way to begin anew in a home that was in use. Without these names it is like one that never was.
pub const ANEW: &str =
    "move state.db, state.db-wal, ballast and undo away to start with a new store";

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full")]
    Full,
    #[error("the database is damaged ({0})")]
    Corrupt(String),
    /// A full-text index is broken. It has only words of other tables, and is filled again from them.
    #[error("the search index is broken ({0})")]
    Index(String),
    /// Another process has it locked, and this one has waited.
    #[error("the database is locked ({0})")]
    Busy(String),
    #[error("the database failed ({0})")]
    Broken(String),
    /// A search that has reached its deadline.
    #[error("the search took longer than {SEARCH_TIME_MAX:?}")]
    TooSlow,
    /// Only this change or read failed: because of a constraint or an unreadable row, for example.
    #[error("the database failed ({0})")]
    Change(String),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            // FTS5 is the only kind of virtual table here that reports damage.
            Some(ErrorCode::DatabaseCorrupt)
                if error.sqlite_extended_error_code() == Some(ffi::SQLITE_CORRUPT_VTAB) =>
            {
                Self::Index(error.to_string())
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt(error.to_string())
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy(error.to_string())
            }
            Some(ErrorCode::OperationInterrupted) => Self::TooSlow,
            // SQLite's general error: a text that is not JSON, or a trigger that rejects a change.
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

/// Reason why a home cannot be used. Each message explains what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use the home {}: {cause}", path.display())]
    Home { path: PathBuf, cause: std::io::Error },
    #[error("another peacrab is running on {} ({holder}): {}", home.display(), lock_advice(holder))]
    Locked { home: PathBuf, holder: LockHolder },
    #[error(
        "{} was written by a newer peacrab (schema {found}, this one knows {known}); install that version again",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// A read without a daemon needs a newer schema.
    #[error(
        "{} was written by an older peacrab (schema {found}, this one knows {known}); start the daemon once, which brings it up to date",
        path.display()
    )]
    NotMigrated { path: PathBuf, found: u32, known: u32 },
    #[error(
        "{} was written by a preview of peacrab (schema {found}) that this one cannot read: {}. Your workspace is not affected",
        path.display(),
        ANEW
    )]
    Older { path: PathBuf, found: u32 },
    #[error(
        "cannot open {}: the disk is full. Free some space. Nothing is lost, and work continues then",
        path.display()
    )]
    Full { path: PathBuf },
    #[error("cannot open {}: {cause}. Restore it from a backup (`peacrab restore FILE --replace`), or {}", path.display(), ANEW)]
    Damaged { path: PathBuf, cause: StoreError },
    #[error(
        "{} is empty, although this home was in use: what it contained is lost. Restore the newest backup (`peacrab restore FILE --replace`), or {}",
        path.display(),
        ANEW
    )]
    Emptied { path: PathBuf },
    /// The database is gone.
    #[error(
        "{} is not there, but its log is ({}-wal), with the last changes: bring the file back, or {}",
        path.display(),
        path.display(),
        ANEW
    )]
    LogAlone { path: PathBuf },
    /// The database is gone, and its log too.
    #[error(
        "{} is not there, although this home was in use: bring the file back, or restore the newest backup (`peacrab restore FILE --replace`), or {}",
        path.display(),
        ANEW
    )]
    Gone { path: PathBuf },
    #[error("cannot open {}: {holder} has it locked. Close that program, and try again", path.display())]
    InUse { path: PathBuf, holder: String },
    #[error("cannot open {}: {why}", path.display())]
    Denied { path: PathBuf, why: String },
    /// The reason is not known to be damage.
    #[error("cannot open {}: {cause}. The log of the kernel (`dmesg`) shows if the disk fails", path.display())]
    Database { path: PathBuf, cause: StoreError },
    #[error("cannot copy the store to {}: {cause}", path.display())]
    Copy { path: PathBuf, cause: StoreError },
}

/// Returns what to do about the process that has the home locked.
fn lock_advice(holder: &LockHolder) -> &'static str {
    holder.work.map_or("stop it first, or give this one its own --home", StartWork::advice)
}
