//! Estimates the tokens of a conversation in a model's context window. The provider's own counts
//! correct the estimate. Pure.

pub use crate::provider::tokens;
use crate::provider::{count_shown, describe_call};
use crate::types::session::{Step, TokenEstimate, TokenSums, Turn};

/// The size of a message or a call without its texts, in tokens.
const FRAME_TOKENS: u64 = 8;

/// The size of the text around a summary and of the marks of its lines, in tokens.
const SUMMARY_FRAME_TOKENS: u64 = 70;

/// The size of a picture in tokens: about the maximum that Anthropic counts for one (Vision).
const PICTURE_TOKENS: u64 = 1_600;

/// Number of steps at the end of the running turn that may still change: the current one, and the one before, whose
/// calls are being settled.
const STEPS_OPEN: usize = 2;

/// Limits between which a provider's count is trusted. Beyond them it counts something else than the prompt.
const PERMILLE_LEAST: u64 = 500;
const PERMILLE_MOST: u64 = 4_000;

/// Percentages of the context window above which the conversation is compacted in the background, old results are
/// shortened, and the conversation is compacted at once.
pub const COMPACT_AT: u64 = 60;
pub const SHORTEN_AT: u64 = 75;
pub const FULL_AT: u64 = 90;

/// Least percentage of its context window that a provider is assumed to have, however often it rejects a prompt as
/// too long: the error may have another reason.
const CEILING_LEAST: u64 = 25;

/// Estimates the tokens of a turn without its pictures.
pub fn turn_tokens(turn: &Turn) -> u64 {
    turn.steps.iter().map(step_tokens).sum()
}

fn step_tokens(step: &Step) -> u64 {
    let input = step.input.as_deref().map_or(0, |input| FRAME_TOKENS + tokens(input));
    if step.is_summarized {
        let recorded = step.calls.iter().map(describe_call);
        return input + recorded.map(|text| tokens(&text)).sum::<u64>();
    }
    let calls: u64 = step
        .calls
        .iter()
        .map(|call| {
            let texts = [&call.tool, &call.arguments, call.outcome.for_model()];
            FRAME_TOKENS + texts.iter().map(|text| tokens(text)).sum::<u64>()
        })
        .sum();
    let thinking = step.thinking.iter().map(|block| tokens(&block.block.to_string())).sum::<u64>();
    input + FRAME_TOKENS + tokens(&step.text) + thinking + calls
}

/// Estimates the tokens of the part of a prompt that stays the same during a turn, without tools.
pub fn fixed_tokens(system: &[String], summary: Option<&str>) -> u64 {
    let system: u64 = system.iter().map(|part| tokens(part)).sum();
    system + summary.map_or(0, |summary| SUMMARY_FRAME_TOKENS + tokens(summary))
}

/// Estimates the tokens of the pictures of a conversation that a model is shown.
pub fn picture_tokens(turns: &[Turn]) -> u64 {
    count_shown(turns) as u64 * PICTURE_TOKENS
}

/// Estimates the tokens of a conversation, all of it counted anew.
pub fn conversation_tokens(summary: Option<&str>, turns: &[Turn], sees: bool) -> u64 {
    let turns_tokens: u64 = turns.iter().map(turn_tokens).sum();
    let pictures = if sees { picture_tokens(turns) } else { 0 };
    summary.map_or(0, tokens) + turns_tokens + pictures
}

/// Returns a percentage of a context window.
pub fn percent(context_window: u64, percent: u64) -> u64 {
    context_window.saturating_mul(percent) / 100
}

impl TokenEstimate {
    /// Estimates the tokens of the turns of a conversation without pictures. Parts that no longer change are counted once;
    /// code that changes them anyway must call [`Self::recount`].
    pub fn turns_tokens(&mut self, turns: &[Turn]) -> u64 {
        let Some((running, ended)) = turns.split_last() else { return 0 };
        let mut kept = self.kept_of(ended);
        if kept.turns < ended.len() {
            kept.turns_tokens += ended[kept.turns..].iter().map(turn_tokens).sum::<u64>();
            kept.turns = ended.len();
            kept.last = ended.last().map(|turn| turn.id);
        }
        let closed = running.steps.len().saturating_sub(STEPS_OPEN);
        if kept.running != Some(running.id) || kept.steps > closed {
            (kept.running, kept.steps, kept.steps_tokens) = (Some(running.id), 0, 0);
        }
        kept.steps_tokens += running.steps[kept.steps..closed].iter().map(step_tokens).sum::<u64>();
        kept.steps = closed;
        self.kept = kept;
        let open: u64 = running.steps[closed..].iter().map(step_tokens).sum();
        kept.turns_tokens + kept.steps_tokens + open
    }

    /// Returns the sums of the ended turns. Empty if other turns were counted.
    fn kept_of(&self, ended: &[Turn]) -> TokenSums {
        let last = self.kept.turns.checked_sub(1).and_then(|last| ended.get(last));
        let is_same = self.kept.turns == 0 || last.map(|turn| turn.id) == self.kept.last;
        if is_same { self.kept } else { TokenSums::default() }
    }

    /// Discards the sums after turns were shortened, compacted or read anew.
    pub fn recount(&mut self) {
        self.kept = TokenSums::default();
    }

    /// Returns the provider's probable count for an estimate.
    pub fn counted(&self, estimate: u64) -> u64 {
        (estimate.saturating_mul(self.permille)).div_ceil(1_000)
    }

    /// Returns the estimate that corresponds to a provider's count.
    pub fn estimated(&self, counted: u64) -> u64 {
        counted.saturating_mul(1_000) / self.permille.max(1)
    }

    /// Returns the usable size of a context window, limited by the provider's rejections.
    pub fn context_window(&self, context_window: u64) -> u64 {
        self.ceiling.map_or(context_window, |ceiling| context_window.min(ceiling))
    }

    /// Adjusts the estimate to the provider's count, which is 0 if it reported none.
    pub fn learn(&mut self, estimate: u64, counted: u64) {
        if estimate > 0 && counted > 0 {
            let permille = counted.saturating_mul(1_000) / estimate;
            self.permille = permille.clamp(PERMILLE_LEAST, PERMILLE_MOST);
        }
    }

    /// Resets the correction, because another provider counts in another way.
    pub fn forget_provider(&mut self) {
        let Self { permille, ceiling, .. } = Self::default();
        (self.permille, self.ceiling) = (permille, ceiling);
    }

    /// Lowers the ceiling after the provider, with a configured `context_window`, rejected a prompt of `used` tokens.
    pub fn lower_ceiling(&mut self, used: u64, context_window: u64) {
        let ceiling = percent(used, FULL_AT).max(percent(context_window, CEILING_LEAST));
        self.ceiling = Some(self.ceiling.map_or(ceiling, |before| before.min(ceiling)));
    }
}
