//! The numbers that rows got. A restored store gives none of them again: buttons and messages on the platforms name the
//! rows that had them.

use rusqlite::{Connection, params};

/// The highest number that a row of a table got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestRowNumber {
    pub table: String,
    pub number: i64,
}

/// Returns the highest number of each table whose rows are numbered.
pub fn newest_row_numbers(store: &Connection) -> rusqlite::Result<Vec<NewestRowNumber>> {
    let mut rows = store.prepare("SELECT name, seq FROM sqlite_sequence")?;
    rows.query_map([], |row| Ok(NewestRowNumber { table: row.get(0)?, number: row.get(1)? }))?
        .collect()
}

/// Has the next rows of these tables get higher numbers. Tables of another schema are left out.
pub fn skip_row_numbers(store: &Connection, newest: &[NewestRowNumber]) -> rusqlite::Result<()> {
    for NewestRowNumber { table, number } in newest {
        store.execute(
            "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0
             WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)
             AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)",
            [table],
        )?;
        store.execute(
            "UPDATE sqlite_sequence SET seq = ?2 WHERE name = ?1 AND seq < ?2",
            params![table, number],
        )?;
    }
    Ok(())
}
