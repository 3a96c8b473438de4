//! `[memory]`: what comes back by itself, and how many facts stand in prompts.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::memory;

use super::values::{Flag, Within};

/// Memory. It needs no network, no key and no second model.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MemorySection {
    /// Whether up to five passages of a person's own notes, files and earlier conversations are added
    /// to a private message that has a rare word in common with them. Untrusted content never is.
    recall: Flag<true>,
    /// Facts of one person that stand in the prompt. Above it, those that are used least make way and
    /// are still found by a search. /memory shows them.
    facts_max: Within<0, 200, 50>,
}

impl MemorySection {
    pub(super) fn config(&self) -> memory::Config {
        memory::Config { recall: self.recall.0, facts_max: self.facts_max.count() }
    }
}
