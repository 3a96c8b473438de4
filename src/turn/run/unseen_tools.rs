//! Notices a model that is not shown its tools: some chat templates drop them, and the model then only talks of what it
//! would do. The provider's count of the prompt gives it away.

use crate::bus::notices;
use crate::provider::Completion;
use crate::replies;
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;

/// With fewer tokens of tools, a count tells nothing.
const TOOLS_TOKENS_MIN: u64 = 400;

/// Decides by a provider's count of a prompt if the tools were part of it. `rest` and `tools` are our estimates of the
/// prompt without its tools and of these. None if it cannot be told.
///
/// A count is up to 1.4 times our estimate (Qwen's tokenizer), and templates write tools more briefly than we do.
pub fn has_tools(rest: u64, tools: u64, counted: u64) -> Option<bool> {
    // Some servers count only what was not in their cache.
    let is_cached = counted < rest / 2;
    let is_close = rest > tools;
    match tools < TOOLS_TOKENS_MIN || is_cached || is_close {
        true => None,
        false => Some(counted >= rest + tools / 3),
    }
}

impl ActiveTurn<'_> {
    /// Tells the owner once if the model seems not to be shown its tools.
    pub(super) async fn check_tools(
        &self,
        estimate: u64,
        completion: &Completion,
    ) -> Result<(), TurnError> {
        let (shown, name) = (&self.turns.tools_shown, self.provider.name());
        if !completion.calls.is_empty() {
            shown.set(name, true);
        }
        if shown.is_known_to_show(name) || self.tools.is_empty() {
            return Ok(());
        }
        let (tools, counted) = (self.tools_tokens, completion.usage.input);
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
        let words = replies::tools_dropped(name, counted, estimate);
        Ok(notices::tell_owner(&self.turns.services.bus, key, words).await?)
    }
}
