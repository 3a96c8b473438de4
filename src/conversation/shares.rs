//! Divides a model's context window between the parts of a prompt, so that a compaction frees enough tokens for
//! many turns. Pure. Parts without a share (the newest turns, the necessary tools) are counted first.

use crate::conversation::tokens::percent;

/// Maximum size of a context window, in tokens, for compact prompts, which have few tools and short texts.
pub const COMPACT_WINDOW_MAX: u64 = 8_192;

/// Percentage of the context window that is free after a compaction.
pub const FREE_PERCENT: u64 = 35;

/// Least percentage of the context window that a background compaction must free. With turns of a fortieth of a
/// window, there are then at least eight turns between two compactions.
pub const FREES_PERCENT: u64 = 20;

/// Least percentage of the context window that was used since the last notes for new notes before a compaction.
pub const NOTES_PERCENT: u64 = 25;

/// The share of tools in the context window, in percent. Further tools are available through `more_tools`. A compact
/// prompt has a smaller share, and a limit in tokens.
const TOOLS_PERCENT: u64 = 25;
const COMPACT_TOOLS_PERCENT: u64 = 15;
const COMPACT_TOOLS_TOKENS_MAX: u64 = 420;

/// Percentages of the used part without tools: for instructions with skills, memory, notes, and the summary. The rest is
/// for the newest turns.
const INSTRUCTIONS_SHARE: u64 = 28;
const MEMORY_SHARE: u64 = 25;
const NOTES_SHARE: u64 = 8;
const SUMMARY_SHARE: u64 = 12;

/// Limits of a summary: a shorter one has no content, and models do not read a longer one.
const SUMMARY_TOKENS_MIN: u64 = 80;
const SUMMARY_TOKENS_MAX: u64 = 6_000;

/// The maximum size of each part of a prompt, in estimated tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextShares {
    /// The whole prompt after a compaction.
    pub used: u64,
    pub instructions: u64,
    pub memory: u64,
    pub notes: u64,
    pub summary: u64,
}

impl ContextShares {
    /// Returns the shares of a context window, in a prompt with `tools` tokens of tools.
    pub fn new(context_window: u64, tools: u64) -> Self {
        let used = percent(context_window, 100 - FREE_PERCENT);
        let texts = used.saturating_sub(tools);
        let summary = percent(texts, SUMMARY_SHARE).clamp(SUMMARY_TOKENS_MIN, SUMMARY_TOKENS_MAX);
        Self {
            used,
            instructions: percent(texts, INSTRUCTIONS_SHARE),
            memory: percent(texts, MEMORY_SHARE),
            notes: percent(texts, NOTES_SHARE),
            summary,
        }
    }

    /// Returns the maximum tokens of instructions next to memory and notes of these sizes, whose unused shares they get.
    pub fn instructions_beside(&self, memory: u64, notes: u64) -> u64 {
        self.instructions + self.memory.saturating_sub(memory) + self.notes.saturating_sub(notes)
    }
}

/// Returns true if prompts for this context window are compact.
pub fn is_compact(context_window: u64) -> bool {
    context_window <= COMPACT_WINDOW_MAX
}

/// Returns the maximum size of the tools of a prompt, in tokens.
pub fn tools_max(context_window: u64) -> u64 {
    match is_compact(context_window) {
        true => percent(context_window, COMPACT_TOOLS_PERCENT).min(COMPACT_TOOLS_TOKENS_MAX),
        false => percent(context_window, TOOLS_PERCENT),
    }
}
