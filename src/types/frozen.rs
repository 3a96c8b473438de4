//! The part of a session's prompt that stays byte for byte the same until the session is compacted.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The part of the workspace that was put into the prompt when the session began, so that a later change
/// does not lose the provider's cache. Changes are reported at the end of the next message instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenContext {
    /// The folder of the session's person. Empty for the owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    pub memory: String,
    pub notes: String,
    /// The memory and notes as last reported to the model, so that each change is reported once.
    pub told_memory: String,
    pub told_notes: String,
    /// Time at which the model last got the time. None if it did not since the session began or was compacted.
    #[serde(default)]
    pub told_time: Option<DateTime<Utc>>,
    /// None after a compaction, until the next turn begins.
    #[serde(default)]
    pub facts: Option<FrozenFacts>,
    /// True if the model got the due jobs and the changes when the session began or was compacted.
    #[serde(default)]
    pub has_snapshot: bool,
}

/// The facts of the person or group of a session, one a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenFacts {
    pub text: String,
    /// The numbers of the facts in `text`. Empty in rows of older versions.
    #[serde(default)]
    pub ids: Vec<i64>,
    /// The facts that have been reported to the model since.
    pub told: String,
    /// The numbers of the facts in `told`.
    #[serde(default)]
    pub told_ids: Vec<i64>,
}
