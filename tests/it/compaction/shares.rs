//! The shares of a context window: whatever the window, the memory and the turns, a compaction leaves room for many
//! more turns, or a turn is so long that it cannot.

use peacrab::conversation::shares::{ContextShares, FREES_PERCENT, tools_max};
use peacrab::conversation::tokens::{COMPACT_AT, FULL_AT, percent, turn_tokens};
use peacrab::turn::compaction::{KeptWhole, kept};
use peacrab::types::session::{Step, Turn, TurnId, TurnOutcome};
use proptest::prelude::*;

use crate::support::effort;

/// Turns that are to be between two compactions.
const TURNS: usize = 8;

/// What is looked at.
const COMPACTIONS: usize = 3;
const TURNS_MAX: i64 = 400;

/// The beginning of the system prompt, which has no share.
const IDENTITY: u64 = 110;

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(effort::cases(96)) }
}

fn turn(id: i64, tokens: u64) -> Turn {
    // Each step costs its frame, of 8 tokens.
    let steps = vec![Step::default(); usize::try_from(tokens.div_ceil(8)).unwrap()];
    Turn { id: TurnId(id), by: "7".into(), steps, ending: Some(TurnOutcome::Answered) }
}

/// What a conversation of equal turns comes to: after how many turns it was compacted, and what was used after that.
fn compactions(context_window: u64, texts: u64, tokens: u64) -> Vec<(usize, u64, usize)> {
    let tools = tools_max(context_window).min(1_800);
    let shares = ContextShares::new(context_window, tools);
    let (memory, notes) = (texts.min(shares.memory), texts.min(shares.notes));
    let instructions = texts.min(shares.instructions_beside(memory, notes));
    let fixed = tools + IDENTITY + instructions + memory + notes;
    let (mut turns, mut since, mut found) = (Vec::new(), 0, Vec::new());
    let mut said = 0;
    for id in 0.. {
        turns.push(turn(id, tokens));
        since += 1;
        said += turns.last().map_or(0, turn_tokens);
        let used = fixed + shares.summary + said;
        if used <= percent(context_window, COMPACT_AT) {
            continue;
        }
        let left =
            ContextShares::new(context_window, 0).used.saturating_sub(fixed + shares.summary);
        let from = kept(&turns, KeptWhole::within(&turns, percent(context_window, 25), left));
        let frees: u64 = turns[..from].iter().map(turn_tokens).sum();
        if from > 0
            && (frees >= percent(context_window, FREES_PERCENT)
                || used > percent(context_window, FULL_AT))
        {
            turns.drain(..from);
            found.push((since, used - frees, turns.len()));
            since = 0;
            said -= frees;
        }
        if found.len() == COMPACTIONS || id == TURNS_MAX {
            break;
        }
    }
    found
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn many_turns_are_between_two_compactions(
        window in prop_oneof![4 => 2_048_u64..16_384, 4 => 16_384_u64..131_072, 1 => 131_072_u64..1_048_576],
        texts in 0_u64..40_000,
        permille in 8_u64..600,
    ) {
        let context_window = window - window / 8;
        let tokens = (context_window * permille / 1_000).max(8);
        let shares = ContextShares::new(context_window, 0);
        for (turns, used, left) in compactions(context_window, texts, tokens) {
            // Only a turn that is too large by itself leaves less.
            prop_assert!(used <= shares.used || left == 1, "{used} of {context_window} are used by {left} turns");
            let explained = tokens * 40 > context_window;
            prop_assert!(turns >= TURNS || explained, "only {turns} turns of {tokens} tokens at {context_window}");
        }
    }

    #[test]
    fn the_shares_fit_together(window in 2_048_u64..1_048_576) {
        let context_window = window - window / 8;
        let tools = tools_max(context_window);
        let ContextShares { used, instructions, memory, notes, summary } =
            ContextShares::new(context_window, tools);
        prop_assert!(tools + instructions + memory + notes + summary < used);
        prop_assert!(used <= percent(context_window, 65));
    }
}
