//! Damage to a database, as a failing disk leaves it.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

/// Fills the first page of tables and of their indices, so that the file opens and nothing in them can be read. `tables` is
/// a pattern of LIKE.
pub(crate) fn damage(path: &Path, tables: &str) {
    let store = Connection::open(path).unwrap();
    let size: i64 = store.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    let pages: Vec<i64> = {
        let roots = "SELECT rootpage FROM sqlite_schema WHERE rootpage > 1 AND tbl_name LIKE ?";
        let mut roots = store.prepare(roots).unwrap();
        roots.query_map([tables], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert!(!pages.is_empty());
    drop(store);
    let mut bytes = fs::read(path).unwrap();
    for page in pages {
        let [begin, end] = [(page - 1) * size, page * size].map(|at| usize::try_from(at).unwrap());
        bytes[begin..end].fill(0x5a);
    }
    fs::write(path, bytes).unwrap();
}
