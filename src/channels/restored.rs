//! Deletes browser sign-ins from a restored backup: some may have been ended since the backup was made.

use rusqlite::Connection;

/// Ends all browser sign-ins, and returns their number. People sign in again.
pub fn end_logins(store: &Connection) -> rusqlite::Result<usize> {
    store.execute("DELETE FROM web_logins", [])
}
