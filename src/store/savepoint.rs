//! Savepoints: parts of a change that may fail alone.

use rusqlite::{Connection, ErrorCode};

/// Runs a part of a change in a savepoint, and rolls it back if it fails. The outer error concerns the
/// whole store, and ends the whole change; the inner one describes the failure of this part.
pub fn in_savepoint<T>(
    store: &Connection,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<Result<T, String>> {
    store.execute_batch("SAVEPOINT part")?;
    match work() {
        Ok(value) => store.execute_batch("RELEASE part").map(|()| Ok(value)),
        Err(error) if concerns_the_store(&error) => Err(error),
        Err(error) => {
            store.execute_batch("ROLLBACK TO part; RELEASE part")?;
            Ok(Err(error.to_string()))
        }
    }
}

fn concerns_the_store(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    !matches!(
        code,
        // Not an error of SQLite, or one of a statement or its values.
        None | Some(
            ErrorCode::Unknown
                | ErrorCode::ConstraintViolation
                | ErrorCode::TypeMismatch
                | ErrorCode::TooBig
                | ErrorCode::ApiMisuse
                | ErrorCode::ParameterOutOfRange
        )
    )
}
