//! The settings of questions: which calls must be approved, by whom, and how long an answer is waited for.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::people::Role;

/// What people are asked for, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub approvals: Approvals,
    /// The time after which no answer is a no, in a private chat and in a group.
    pub approval_time: Duration,
    pub group_approval_time: Duration,
    pub question_time: Duration,
    /// What becomes of calls that reach outside where strangers' words were read.
    pub foreign: OnUntrusted,
}

/// What becomes of a call that reaches outside, once the model has read what strangers wrote: they may have
/// asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUntrusted {
    #[default]
    Ask,
    Deny,
    Allow,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            approvals: Approvals::default(),
            approval_time: Duration::from_secs(12 * 60 * 60),
            // A group goes on without the turn that waits.
            group_approval_time: Duration::from_secs(5 * 60),
            // The conversation waits meanwhile.
            question_time: Duration::from_secs(60 * 60),
            foreign: OnUntrusted::default(),
        }
    }
}

/// Which calls must be approved. No config, no approvals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Names of tools; one that ends in `*` stands for all that begin so.
    pub tools: Vec<String>,
    /// Whose calls must be approved that do more than look.
    pub roles: Vec<Role>,
}

impl Approvals {
    /// The least role that may approve.
    pub const BY: Role = Role::Admin;

    /// Whether the tool is named.
    pub fn names(&self, tool: &str) -> bool {
        self.tools.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => tool.starts_with(beginning),
            None => tool == name,
        })
    }
}
