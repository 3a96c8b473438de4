//! Detects a model that is not shown its tools: some chat templates drop them, and the model then only describes what
//! it would do. The provider's token count of the prompt reveals it.

use crate::bus::notices;
use crate::provider::Completion;
use crate::replies;
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;

/// Minimum tokens of the tools for which a count is conclusive.
const TOOLS_TOKENS_MIN: u64 = 400;

/// Returns true if the tools were part of a prompt, by the provider's count. `rest` and `tools` are our estimates of
/// the prompt without its tools, and of the tools. None if the count is not conclusive.
///
/// A count is up to 1.4 times our estimate (Qwen's tokenizer), and templates write tools more briefly than we do.
pub fn has_tools(rest: u64, tools: u64, counted: u64) -> Option<bool> {
    // Some servers do not count tokens from their cache.
    let is_cached = counted < rest / 2;
    let is_close = rest > tools;
    match tools < TOOLS_TOKENS_MIN || is_cached || is_close {
        true => None,
        false => Some(counted >= rest + tools / 3),
    }
}

impl ActiveTurn<'_> {
    /// Notifies the owner once if the model seems not to be shown its tools.
    pub(super) async fn check_tools(
        &self,
        estimate: u64,
        completion: &Completion,
    ) -> Result<(), TurnError> {
        let (shown, name) = (&self.turns.tools_shown, self.provider.name());
        if !completion.calls.is_empty() {
            shown.set(name, true);
        }
        if shown.is_known_to_show(name) || self.base.tools.is_empty() {
            return Ok(());
        }
        let (tools, counted) = (self.base.tools_tokens, completion.usage.input);
        let Some(is_shown) = has_tools(estimate.saturating_sub(tools), tools, counted) else {
            return Ok(());
        };
        if !shown.set(name, is_shown) || is_shown {
            return Ok(());
        }
        tracing::warn!(
            provider = name,
            counted,
            estimate,
            "The model's server seems to leave the tools out of the prompt"
        );
        let key = format!("tools {name}");
        let message = replies::tools_dropped(name, counted, estimate);
        Ok(notices::notify_owner(&self.turns.services.bus, key, message).await?)
    }
}
