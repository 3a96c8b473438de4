//! The errors that stop a turn without an end of its own.

use crate::store::StoreError;

/// An error that stops a turn without an end of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A tool failed in a way that ends the turn.
    #[error("{0:#}")]
    Abort(anyhow::Error),
}

impl From<anyhow::Error> for TurnError {
    fn from(error: anyhow::Error) -> Self {
        Self::Abort(error)
    }
}

impl From<StoreError> for TurnError {
    fn from(error: StoreError) -> Self {
        Self::Commit(error.into())
    }
}

/// The reason why a commit was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// The turn was ended meanwhile, by `/stop` or `/new`. Its work is discarded.
    #[error("the turn has been ended")]
    Ended,
    #[error(transparent)]
    Store(#[from] StoreError),
}
