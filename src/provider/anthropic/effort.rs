//! Reasoning parameters of Anthropic's models. Up to Claude 4.5 they get a token budget. From 4.6 on they
//! decide themselves, and get an effort. From 4.7 on they refuse a budget (docs.aws.amazon.com/bedrock,
//! "Adaptive thinking"). Other vendors' models behind this API support the budget.

use serde_json::{Value, json};

use crate::provider::{Effort, PromptMessage};

/// Minimum token budget of the API ("Building with extended thinking").
const BUDGET_MIN: u32 = 1024;

/// The form in which a model is asked to reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingMode {
    /// It cannot reason.
    NoThinking,
    /// By a number of tokens.
    Budget,
    /// By a word. The model itself decides how long.
    Adaptive,
    /// A model of another vendor.
    OtherVendor,
}

/// Adds the parameters for `effort` to a request. Returns true if the request disables reasoning, so that
/// none may be passed back either ("When thinking is disabled, an assistant message in the final position
/// cannot contain thinking").
pub(super) fn ask(
    body: &mut Value,
    effort: Effort,
    model: &str,
    tokens_max: u32,
    messages: &[PromptMessage<'_>],
) -> bool {
    let kind = kind(model);
    let word = match effort {
        Effort::Default => return false,
        Effort::Off => match kind {
            ThinkingMode::Adaptive => "low",
            ThinkingMode::OtherVendor => {
                body["thinking"] = json!({"type": "disabled"});
                return true;
            }
            // These models reason only if they are asked to.
            ThinkingMode::NoThinking | ThinkingMode::Budget => return true,
        },
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    };
    match kind {
        ThinkingMode::NoThinking => {}
        ThinkingMode::Adaptive => {
            // Some models always reason, and refuse a request not to. A low effort is valid for all.
            if effort != Effort::Off {
                body["thinking"] = json!({"type": "adaptive"});
            }
            body["output_config"] = json!({"effort": word});
        }
        ThinkingMode::Budget | ThinkingMode::OtherVendor => match budget(effort, tokens_max) {
            Some(budget) if may_begin(messages, model) => {
                body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
            }
            _ => return kind == ThinkingMode::Budget,
        },
    }
    false
}

/// Returns the token budget for reasoning: less than `tokens_max`, the limit of the whole answer, of
/// which a quarter is left for text. None if that is below the API's minimum.
pub fn budget(effort: Effort, tokens_max: u32) -> Option<u32> {
    let wanted = match effort {
        Effort::Default | Effort::Off => return None,
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 24_576,
    };
    Some(wanted.min(tokens_max / 4 * 3)).filter(|budget| *budget >= BUDGET_MIN)
}

/// Returns true if reasoning can be enabled. Calls that are continued must have begun with reasoning ("a
/// final assistant message must start with a thinking block"), and those of another model have not.
fn may_begin(messages: &[PromptMessage<'_>], model: &str) -> bool {
    match messages {
        [.., PromptMessage::Assistant { thinking, .. }, PromptMessage::Results(_)] => {
            !super::own_thinking(thinking, model).is_empty()
        }
        _ => true,
    }
}

/// Returns the form for the model of this name.
pub fn kind(model: &str) -> ThinkingMode {
    match version(model) {
        None => ThinkingMode::OtherVendor,
        Some((..=2, _) | (3, ..=6)) => ThinkingMode::NoThinking,
        Some((3, _) | (4, ..=5)) => ThinkingMode::Budget,
        Some(_) => ThinkingMode::Adaptive,
    }
}

/// Returns the version of Claude in a model's name, or the greatest if it has none. None for other vendors' models.
pub fn version(model: &str) -> Option<(u32, u32)> {
    let model = model.to_ascii_lowercase();
    let (_, name) = model.split_once("claude")?;
    // `-3-7-sonnet-20250219`, `-opus-4-20250514`, `-sonnet-4-5`, `-4.6-opus`. A date is not a version.
    let mut numbers = name
        .split(['-', '.', '@', ':', '_'])
        .filter_map(|part| part.parse::<u32>().ok())
        .filter(|number| *number < 100);
    let major = numbers.next().unwrap_or(u32::MAX);
    Some((major, numbers.next().unwrap_or_default()))
}
