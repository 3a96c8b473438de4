//! The small context window of guests with a budget: a short prompt and the newest exchanges, so that the budget lasts
//! longer. The conversation keeps everything, and the turns of other people see it.

use crate::conversation::tokens::{self, turn_tokens};
use crate::turn::compaction;
use crate::turn::run::active::ActiveTurn;
use crate::types::session::Turn;

/// Maximum length of the shown earlier turns, in tokens: two or three short exchanges.
const HISTORY_TOKENS: u64 = 200;

/// Maximum length of a shown summary, in tokens.
const SUMMARY_TOKENS: u64 = 100;

impl ActiveTurn<'_> {
    pub(super) fn has_short_prompt(&self) -> bool {
        self.limits.background.is_none()
            && self.turns.spending.has_short_prompt(self.requester.role)
    }

    /// Returns the turns that the model is shown, including the running one.
    pub(super) fn shown_turns(&self) -> &[Turn] {
        let turns = &self.session.turns;
        if !self.has_short_prompt() {
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

    /// Returns the summary that the model is shown.
    pub(super) fn shown_summary(&self) -> Option<String> {
        let summary = compaction::shown_of(&self.session);
        let fits = |summary: &String| {
            !self.has_short_prompt() || tokens::tokens(summary) <= SUMMARY_TOKENS
        };
        summary.filter(fits)
    }

    /// Returns the estimated tokens of a short prompt.
    pub(super) fn estimate_short_prompt(&self) -> u64 {
        let sees = self.provider.sees();
        let summary = self.shown_summary();
        let conversation_tokens =
            tokens::conversation_tokens(summary.as_deref(), self.shown_turns(), sees);
        tokens::fixed_tokens(&self.base.system, None) + self.base.tools_tokens + conversation_tokens
    }
}
