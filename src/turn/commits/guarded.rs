//! The guard of every commit of a turn: the turn still runs.

use rusqlite::Connection;

use crate::conversation::transcript;
use crate::store::{Store, Sync};
use crate::turn::error::CommitError;
use crate::types::session::TurnId;

/// Commits `work` if the turn still runs. Otherwise the error is `Ended`.
pub(super) async fn commit_if_running<T: Send + 'static>(
    store: &Store,
    label: &'static str,
    sync: Sync,
    turn: TurnId,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, CommitError> {
    let check = move |store: &Connection| match transcript::is_running(store, turn)? {
        true => work(store).map(Some),
        false => Ok(None),
    };
    store.write(label, sync, check).await?.ok_or(CommitError::Ended)
}
