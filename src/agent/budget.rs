//! How much of a model's room a conversation takes: an estimate, which the provider's own counts
//! correct. Pure.

use crate::provider::{ToolSchema, count_shown};
use crate::session::{Gauge, Turn};

/// A token is about four letters of prose, or three and a half bytes of anything else: code,
/// figures, scripts that are not Latin. In parts of which 28 make a token.
const LETTER_WEIGHT: u64 = 7;
const OTHER_WEIGHT: u64 = 8;
const TOKEN_WEIGHT: u64 = 28;

/// What a message or a call costs besides its texts, in tokens.
const FRAME_TOKENS: u64 = 8;

/// What a picture costs, in tokens: about the most that Anthropic counts for one (Vision).
const PICTURE_TOKENS: u64 = 1_600;

/// Between these a provider's count is believed; beyond it counts something else than its prompt.
const PERMILLE_LEAST: u64 = 500;
const PERMILLE_MOST: u64 = 4_000;

/// How full a model's room may be, in percent, until something is done about it: the conversation
/// is folded in the background, old results are shortened, and it is folded at once.
pub const FOLD_AT: u64 = 60;
pub const SHORTEN_AT: u64 = 75;
pub const FULL_AT: u64 = 90;

/// The least of its room that a provider is believed to have, in percent, however often it says that a
/// prompt is too long: it may mean something else.
const CEILING_LEAST: u64 = 25;

/// About how many tokens a text has.
pub fn tokens(text: &str) -> u64 {
    let letters = text.bytes().filter(|byte| byte.is_ascii_alphabetic() || *byte == b' ').count();
    let others = text.len() - letters;
    (letters as u64 * LETTER_WEIGHT + others as u64 * OTHER_WEIGHT).div_ceil(TOKEN_WEIGHT)
}

/// About how many tokens a turn has, its pictures left out.
pub fn turn_tokens(turn: &Turn) -> u64 {
    let steps = turn.steps.iter().map(|step| {
        let calls: u64 = step
            .calls
            .iter()
            .map(|call| {
                let texts = [&call.tool, &call.arguments, call.outcome.for_model()];
                FRAME_TOKENS + texts.iter().map(|text| tokens(text)).sum::<u64>()
            })
            .sum();
        let thinking = step.thinking.iter().map(|it| tokens(&it.block.to_string())).sum::<u64>();
        let heard = step.heard.as_deref().map_or(0, |heard| FRAME_TOKENS + tokens(heard));
        heard + FRAME_TOKENS + tokens(&step.text) + thinking + calls
    });
    steps.sum()
}

/// About how many tokens a prompt has.
pub fn prompt_tokens(
    system: &[String],
    tools: &[ToolSchema],
    summary: Option<&str>,
    turns: &[Turn],
    sees: bool,
) -> u64 {
    let system: u64 = system.iter().map(|part| tokens(part)).sum();
    let tools = tools.iter().map(|tool| {
        let texts = tokens(&tool.name) + tokens(&tool.description);
        FRAME_TOKENS + texts + tokens(&tool.parameters.to_string())
    });
    let turns_tokens: u64 = turns.iter().map(turn_tokens).sum();
    let pictures = if sees { count_shown(turns) as u64 * PICTURE_TOKENS } else { 0 };
    system + tools.sum::<u64>() + summary.map_or(0, tokens) + turns_tokens + pictures
}

/// So many percent of a room.
pub fn percent(room: u64, percent: u64) -> u64 {
    room.saturating_mul(percent) / 100
}

impl Gauge {
    /// What the provider would count for an estimate of ours.
    pub fn counted(&self, estimate: u64) -> u64 {
        (estimate.saturating_mul(self.permille)).div_ceil(1_000)
    }

    /// The estimate of ours for which the provider would count so many tokens.
    pub fn estimated(&self, counted: u64) -> u64 {
        counted.saturating_mul(1_000) / self.permille.max(1)
    }

    /// What there is room for, of what the provider was said to have.
    pub fn room(&self, room: u64) -> u64 {
        self.ceiling.map_or(room, |ceiling| room.min(ceiling))
    }

    /// The provider has counted what we had estimated; 0 if it did not say.
    pub fn learn(&mut self, estimate: u64, counted: u64) {
        if estimate > 0 && counted > 0 {
            let permille = counted.saturating_mul(1_000) / estimate;
            self.permille = permille.clamp(PERMILLE_LEAST, PERMILLE_MOST);
        }
    }

    /// What was learned of how a provider counts is not true of another.
    pub fn forget_provider(&mut self) {
        let Self { permille, ceiling, .. } = Self::default();
        (self.permille, self.ceiling) = (permille, ceiling);
    }

    /// So much by our count was too much for the provider, which was said to have `room`.
    pub fn too_much(&mut self, used: u64, room: u64) {
        let ceiling = percent(used, FULL_AT).max(percent(room, CEILING_LEAST));
        self.ceiling = Some(self.ceiling.map_or(ceiling, |before| before.min(ceiling)));
    }
}
