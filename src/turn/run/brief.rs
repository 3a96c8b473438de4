//! The small window of guests with a budget: a short prompt and the newest exchanges, so that the budget lasts for
//! more of them. Nothing of the conversation is lost by that: other people's turns see all of it.

use crate::conversation::tokens::{self, turn_tokens};
use crate::turn::compaction;
use crate::turn::run::active::ActiveTurn;
use crate::types::session::Turn;

/// The earlier turns that are shown, in tokens: two or three short exchanges.
const HISTORY_TOKENS: u64 = 200;

/// A longer summary is not shown, in tokens.
const SUMMARY_TOKENS: u64 = 100;

impl ActiveTurn<'_> {
    pub(super) fn is_brief(&self) -> bool {
        self.part.background.is_none() && self.turns.spending.is_brief(self.asker.role)
    }

    /// The turns that the model is shown, the one that runs included.
    pub(super) fn shown_turns(&self) -> &[Turn] {
        let turns = &self.session.turns;
        if !self.is_brief() {
            return turns;
        }
        let before = turns.len().saturating_sub(1);
        let (mut from, mut used) = (before, 0);
        for (at, turn) in turns[..before].iter().enumerate().rev() {
            used += turn_tokens(turn);
            if used > HISTORY_TOKENS {
                break;
            }
            from = at;
        }
        &turns[from..]
    }

    /// The summary that the model is shown.
    pub(super) fn shown_summary(&self) -> Option<String> {
        let summary = compaction::shown_of(&self.session);
        let fits = |summary: &String| !self.is_brief() || tokens::tokens(summary) <= SUMMARY_TOKENS;
        summary.filter(fits)
    }

    /// The tokens of a prompt with that.
    pub(super) fn brief_estimate(&self) -> u64 {
        let sees = self.provider.sees();
        let summary = self.shown_summary();
        let said = tokens::said_tokens(summary.as_deref(), self.shown_turns(), sees);
        tokens::fixed_tokens(&self.system, None) + self.tools_tokens + said
    }
}
