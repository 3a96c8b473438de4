//! Divides a model's context window between the parts of a prompt, so that a compaction leaves room for many
//! turns. Pure; what has no share (the newest turns, what a model needs of its tools) is counted first.

use crate::conversation::tokens::percent;

/// Up to so many tokens of prompt, a prompt is a compact one: few tools, short texts.
pub const COMPACT_WINDOW_MAX: u64 = 8_192;

/// So much of the window is free after a compaction, in percent.
pub const FREE_PERCENT: u64 = 35;

/// A conversation is compacted in the background only if that takes so much of the window out of it, in percent:
/// at turns of a fortieth of a window, at least eight are between two compactions.
pub const FREES_PERCENT: u64 = 20;

/// Notes are taken before a compaction only if so much was said since the last ones, in percent of the window.
pub const NOTES_PERCENT: u64 = 25;

/// The share of tools in the context window, in percent; the others are behind `more_tools`. A compact prompt has a
/// smaller share, and a bound in tokens.
const TOOLS_PERCENT: u64 = 25;
const COMPACT_TOOLS_PERCENT: u64 = 15;
const COMPACT_TOOLS_TOKENS_MAX: u64 = 420;

/// Of what is left of the used part without tools, in percent: instructions with skills, memory, notes, the summary.
/// The rest is for the newest turns.
const INSTRUCTIONS_SHARE: u64 = 28;
const MEMORY_SHARE: u64 = 25;
const NOTES_SHARE: u64 = 8;
const SUMMARY_SHARE: u64 = 12;

/// A summary: less says nothing, more is not read.
const SUMMARY_TOKENS_MIN: u64 = 80;
const SUMMARY_TOKENS_MAX: u64 = 6_000;

/// Tokens of our estimate that each part of a prompt may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The prompt after a compaction.
    pub used: u64,
    pub instructions: u64,
    pub memory: u64,
    pub notes: u64,
    pub summary: u64,
}

impl Shares {
    /// The shares of a window that leaves `context_window` tokens for a prompt, besides tools of so many tokens.
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

    /// The tokens that instructions may have beside so many tokens of memory and notes, whose unused shares they get.
    pub fn instructions_beside(&self, memory: u64, notes: u64) -> u64 {
        self.instructions + self.memory.saturating_sub(memory) + self.notes.saturating_sub(notes)
    }
}

/// Returns true if a prompt for such a window is a compact one.
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
