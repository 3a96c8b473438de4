//! A part of a change that may fail alone.

use rusqlite::{Connection, ErrorCode};

/// Does a part of a change in a savepoint: what it has changed when it fails is taken back. The outer error is
/// the store's, with which nothing can go on; the inner one says what is wrong with this part.
pub fn apart<T>(
    store: &Connection,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<Result<T, String>> {
    store.execute_batch("SAVEPOINT part")?;
    match work() {
        Ok(done) => store.execute_batch("RELEASE part").map(|()| Ok(done)),
        Err(error) if is_the_stores(&error) => Err(error),
        Err(error) => {
            store.execute_batch("ROLLBACK TO part; RELEASE part")?;
            Ok(Err(error.to_string()))
        }
    }
}

fn is_the_stores(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    !matches!(
        code,
        // Nothing of SQLite's, or what a statement or its values did wrong.
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
