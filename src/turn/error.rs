//! Why a turn stops without an end of its own.

use crate::store::StoreError;

/// Why a turn stopped without an end of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A tool could not go on.
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

/// Why a commit was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// The turn was ended meanwhile, by `/stop` or `/new`; what was done for it is thrown away.
    #[error("the turn has been ended")]
    Ended,
    #[error(transparent)]
    Store(#[from] StoreError),
}
