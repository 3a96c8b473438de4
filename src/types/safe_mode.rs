//! The safe mode of a daemon that crashed several times in a row.

use serde::{Deserialize, Serialize};

/// The safe mode: channels answer, and no background task starts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafeMode {
    /// The number of starts after an unexpected end that led to it.
    pub starts: usize,
    /// True if an earlier start has reported it to the owner.
    #[serde(skip)]
    pub is_reported: bool,
}
