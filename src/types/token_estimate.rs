//! The known size of a conversation in tokens. Not here: counting.

use crate::types::session::TurnId;

/// The token estimate of a conversation. In memory only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenEstimate {
    /// The provider's tokens per thousand tokens of our estimate.
    pub permille: u64,
    /// A limit below the configured context window, learnt when the provider rejected a prompt as too
    /// long.
    pub ceiling: Option<u64>,
    /// Tokens of the whole prompt when the last turn ended.
    pub used: u64,
    /// Estimated tokens of its system prompt and tools.
    pub fixed: u64,
    /// Tokens of the whole prompt at the last attempted compaction.
    pub tried: u64,
    /// Estimates that no longer change.
    pub kept: TokenSums,
}

/// Estimated sizes of the turns that have ended, and of the closed steps of the running turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenSums {
    /// Number of turns, from the oldest.
    pub turns: usize,
    /// The last of them.
    pub last: Option<TurnId>,
    pub turns_tokens: u64,
    pub running: Option<TurnId>,
    /// Number of steps of the running turn, from the first.
    pub steps: usize,
    pub steps_tokens: u64,
}

impl Default for TokenEstimate {
    fn default() -> Self {
        Self {
            permille: 1_000,
            ceiling: None,
            used: 0,
            fixed: 0,
            tried: 0,
            kept: TokenSums::default(),
        }
    }
}
