//! Opens connections to the database, all with the same settings.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// Page size of a new database in bytes. Each change writes all pages that it touches, and a turn mostly
/// touches one short row in many tables and indices each: a quarter of SQLite's default size means a
/// quarter of the bytes.
const PAGE_BYTES: u32 = 1_024;

/// Length of the write-ahead log in bytes at which SQLite moves it into the database. A page that
/// changed repeatedly is then written there only once.
const LOG_BYTES: u32 = 4 << 20;

/// Number of statements that each connection keeps prepared: more than a message needs.
const STATEMENTS_KEPT: usize = 128;

pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // With QPSG, query plans do not depend on bound values, so a binding never prepares a cached statement
    // again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let pages: u32 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    // An existing database keeps its values. Setting them again would write to it, and sync.
    if pages == 0 {
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
    }
    connection.pragma_update(None, "journal_mode", "wal")?;
    let page_bytes: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_BYTES / page_bytes.max(1))?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -512)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(connection)
}
