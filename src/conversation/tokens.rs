//! Estimates the tokens of a conversation in a model's context window. The provider's own counts
//! correct the estimate. Pure.

pub use crate::provider::tokens;
use crate::provider::{count_shown, recorded_call};
use crate::types::session::{Step, TokenEstimate, TokenSums, Turn};

/// The cost of a message or a call besides its texts, in tokens.
const FRAME_TOKENS: u64 = 8;

/// The cost of the text around a summary and of the marks of its lines, in tokens.
const SUMMARY_FRAME_TOKENS: u64 = 70;

/// The cost of a picture, in tokens: about the most that Anthropic counts for one (Vision).
const PICTURE_TOKENS: u64 = 1_600;

/// Steps at the end of the turn that runs which may still change: the one that is being made, and the one before,
/// whose calls are settled meanwhile.
const STEPS_OPEN: usize = 2;

/// Between these a provider's count is believed; beyond it counts something else than its prompt.
const PERMILLE_LEAST: u64 = 500;
const PERMILLE_MOST: u64 = 4_000;

/// The parts of the context window, in percent, above which the conversation is compacted in the background, old
/// results are shortened, and it is compacted at once.
pub const COMPACT_AT: u64 = 60;
pub const SHORTEN_AT: u64 = 75;
pub const FULL_AT: u64 = 90;

/// The least of its room that a provider is believed to have, in percent, however often it says that a
/// prompt is too long: it may mean something else.
const CEILING_LEAST: u64 = 25;

/// About how many tokens a turn has, its pictures left out.
pub fn turn_tokens(turn: &Turn) -> u64 {
    turn.steps.iter().map(step_tokens).sum()
}

fn step_tokens(step: &Step) -> u64 {
    let input = step.input.as_deref().map_or(0, |input| FRAME_TOKENS + tokens(input));
    if step.is_summarized {
        let recorded = step.calls.iter().map(recorded_call);
        return input + recorded.map(|words| tokens(&words)).sum::<u64>();
    }
    let calls: u64 = step
        .calls
        .iter()
        .map(|call| {
            let texts = [&call.tool, &call.arguments, call.outcome.for_model()];
            FRAME_TOKENS + texts.iter().map(|text| tokens(text)).sum::<u64>()
        })
        .sum();
    let thinking = step.thinking.iter().map(|it| tokens(&it.block.to_string())).sum::<u64>();
    input + FRAME_TOKENS + tokens(&step.text) + thinking + calls
}

/// About how many tokens the part of a prompt has that stays the same while a turn runs, its tools left out.
pub fn fixed_tokens(system: &[String], summary: Option<&str>) -> u64 {
    let system: u64 = system.iter().map(|part| tokens(part)).sum();
    system + summary.map_or(0, |summary| SUMMARY_FRAME_TOKENS + tokens(summary))
}

/// About how many tokens the pictures of a conversation have that a model is shown.
pub fn picture_tokens(turns: &[Turn]) -> u64 {
    count_shown(turns) as u64 * PICTURE_TOKENS
}

/// About how many tokens a conversation has, all of it counted anew.
pub fn said_tokens(summary: Option<&str>, turns: &[Turn], sees: bool) -> u64 {
    let turns_tokens: u64 = turns.iter().map(turn_tokens).sum();
    let pictures = if sees { picture_tokens(turns) } else { 0 };
    summary.map_or(0, tokens) + turns_tokens + pictures
}

/// So many percent of a room.
pub fn percent(context_window: u64, percent: u64) -> u64 {
    context_window.saturating_mul(percent) / 100
}

impl TokenEstimate {
    /// About how many tokens the turns of a conversation have, their pictures left out. What does not change any
    /// more is counted once; who changes it all the same calls [`Self::recount`].
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

    /// Returns the sums of the ended turns. Empty if they are others than those that were counted.
    fn kept_of(&self, ended: &[Turn]) -> TokenSums {
        let last = self.kept.turns.checked_sub(1).and_then(|last| ended.get(last));
        let is_same = self.kept.turns == 0 || last.map(|turn| turn.id) == self.kept.last;
        if is_same { self.kept } else { TokenSums::default() }
    }

    /// Turns were shortened, compacted or read anew: they are counted anew.
    pub fn recount(&mut self) {
        self.kept = TokenSums::default();
    }

    /// Returns the provider's probable count for an estimate.
    pub fn counted(&self, estimate: u64) -> u64 {
        (estimate.saturating_mul(self.permille)).div_ceil(1_000)
    }

    /// The estimate of ours for which the provider would count so many tokens.
    pub fn estimated(&self, counted: u64) -> u64 {
        counted.saturating_mul(1_000) / self.permille.max(1)
    }

    /// Returns the usable part of a context window, as the provider's refusals have shown it.
    pub fn context_window(&self, context_window: u64) -> u64 {
        self.ceiling.map_or(context_window, |ceiling| context_window.min(ceiling))
    }

    /// The provider has counted what we had estimated; 0 if it did not say.
    pub fn learn(&mut self, estimate: u64, counted: u64) {
        if estimate > 0 && counted > 0 {
            let permille = counted.saturating_mul(1_000) / estimate;
            self.permille = permille.clamp(PERMILLE_LEAST, PERMILLE_MOST);
        }
    }

    /// Forgets how a provider counts, because another one counts otherwise.
    pub fn forget_provider(&mut self) {
        let Self { permille, ceiling, .. } = Self::default();
        (self.permille, self.ceiling) = (permille, ceiling);
    }

    /// So much by our count was too much for the provider, which was said to have `context_window`.
    pub fn too_much(&mut self, used: u64, context_window: u64) {
        let ceiling = percent(used, FULL_AT).max(percent(context_window, CEILING_LEAST));
        self.ceiling = Some(self.ceiling.map_or(ceiling, |before| before.min(ceiling)));
    }
}
