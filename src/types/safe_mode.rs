//! The safe mode of a daemon that did not end as it should several times in a row.

use serde::{Deserialize, Serialize};

/// Channels answer, and nothing acts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafeMode {
    /// The starts after an unexpected end that led to it.
    pub starts: usize,
    /// The owner knows of it from an earlier start.
    #[serde(skip)]
    pub is_reported: bool,
}
