//! Things that a restored backup must not bring back: sign-ins of browsers, of which some may have been ended since.

use rusqlite::Connection;

/// Ends all sign-ins of the page. People sign in again.
pub fn end_logins(store: &Connection) -> rusqlite::Result<usize> {
    store.execute("DELETE FROM web_logins", [])
}
