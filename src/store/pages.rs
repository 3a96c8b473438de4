//! The pages of the database file: their number, and the return of free ones to the disk.

use rusqlite::Connection;

/// SQLite's value for `auto_vacuum = incremental`.
const INCREMENTAL: u32 = 2;

/// Numbers of pages of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabasePages {
    pub all: u32,
    pub free: u32,
    /// True if free pages can be returned a few at a time. A database of an older version must be rewritten
    /// first.
    pub can_shrink: bool,
}

impl DatabasePages {
    pub fn count(store: &Connection) -> rusqlite::Result<Self> {
        let number = |pragma: &str| store.pragma_query_value(None, pragma, |row| row.get(0));
        let (all, free, mode): (_, _, u32) =
            (number("page_count")?, number("freelist_count")?, number("auto_vacuum")?);
        Ok(Self { all, free, can_shrink: mode == INCREMENTAL })
    }

    /// Returns the size of the database in bytes, without its free pages.
    pub fn bytes(store: &Connection) -> rusqlite::Result<u64> {
        let Self { all, free, .. } = Self::count(store)?;
        let page_bytes: u32 = store.pragma_query_value(None, "page_size", |row| row.get(0))?;
        Ok(u64::from(all.saturating_sub(free)) * u64::from(page_bytes))
    }

    /// Gives at most `pages_max` free pages back to the disk, and returns the number of free pages that are left.
    /// The file becomes shorter when the write-ahead log is moved into it.
    pub fn release_free(store: &Connection, pages_max: u32) -> rusqlite::Result<u32> {
        // Each step frees one page.
        let mut statement = store.prepare(&format!("PRAGMA incremental_vacuum({pages_max})"))?;
        let mut steps = statement.query([])?;
        while steps.next()?.is_some() {}
        drop(steps);
        Ok(Self::count(store)?.free)
    }
}
