//! `[memory]`: automatic recall, the number of facts in prompts, and the extraction of new ones.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::memory;

use super::reading::ConfigSource;
use super::values::{At, Flag, Within};

/// More than anybody wants to pay for.
const TOKENS_MOST: u32 = 1_000_000_000;

/// Memory. It needs no network of its own, no further key and no second model.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MemorySection {
    /// If true, up to five passages of a person's own notes, files and earlier conversations are added
    /// to a private message that has a rare word in common with them. Untrusted content never is.
    recall: Flag<true>,
    /// Facts of one person that stand in the prompt. Above it, those that are used least make way and
    /// are still found by a search. /memory shows them.
    facts_max: Within<0, 200, 50>,
    /// If true, a model notices lasting facts in conversations, two quiet minutes or six turns after they
    /// were said. Nothing is noticed without a model, and no words of guests are read. /memory shows all
    /// facts, /forget removes them.
    extract: Flag<true>,
    /// The provider that notices them, by name. A cheaper model is enough. It need not be in [agent]
    /// providers. Default: the provider that answers in the conversation.
    provider: Option<At<String>>,
    /// Its daily token budget, read and written. When it is used up, no facts are noticed until midnight.
    tokens_per_day: Within<1, TOKENS_MOST, 500_000>,
}

impl MemorySection {
    /// Its provider must be among `names`.
    pub(super) fn config(&self, source: &ConfigSource<'_>, names: &[&str]) -> memory::Config {
        let one = |name| source.one(name, "provider", names);
        memory::Config { provider: self.provider.as_ref().and_then(one), ..self.without_provider() }
    }

    /// Returns the config apart from the provider.
    pub(super) fn without_provider(&self) -> memory::Config {
        memory::Config {
            recall: self.recall.0,
            facts_max: self.facts_max.count(),
            extract: self.extract.0,
            provider: None,
            tokens_per_day: self.tokens_per_day.0.into(),
        }
    }
}
