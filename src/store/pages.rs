//! The pages of the database file: how many are free, and how they are given back to the disk.

use rusqlite::Connection;

/// What SQLite calls `auto_vacuum = incremental`.
const INCREMENTAL: u32 = 2;

/// How many pages the database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    pub all: u32,
    pub free: u32,
    /// Whether free ones can be given back a few at a time. One that an older version made must be written
    /// anew first.
    pub can_shrink: bool,
}

impl Pages {
    pub fn count(store: &Connection) -> rusqlite::Result<Self> {
        let number = |pragma: &str| store.pragma_query_value(None, pragma, |row| row.get(0));
        let (all, free, mode): (_, _, u32) =
            (number("page_count")?, number("freelist_count")?, number("auto_vacuum")?);
        Ok(Self { all, free, can_shrink: mode == INCREMENTAL })
    }

    /// Gives so many free pages back at most; returns how many are free then. The file is shorter once the
    /// write-ahead log has been moved into it.
    pub fn give_back(store: &Connection, most: u32) -> rusqlite::Result<u32> {
        // Each step frees one page.
        let mut shrink = store.prepare(&format!("PRAGMA incremental_vacuum({most})"))?;
        let mut freed = shrink.query([])?;
        while freed.next()?.is_some() {}
        drop(freed);
        Ok(Self::count(store)?.free)
    }
}
