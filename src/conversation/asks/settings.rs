//! The settings of questions: which calls must be approved, by whom, and how long an answer is waited for.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::people::Role;

/// The calls that people are asked about, and the time that they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub approvals: Approvals,
    /// The time after which no answer is a no, in a private chat and in a group.
    pub approval_time: Duration,
    pub group_approval_time: Duration,
    pub question_time: Duration,
    /// The decision about calls that reach outside after untrusted content was read.
    pub untrusted: OnUntrusted,
}

/// The decision about a call that reaches outside after the model has read untrusted content, which may have
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
            untrusted: OnUntrusted::default(),
        }
    }
}

/// Which calls must be approved. No config, no approvals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Names of tools; one that ends in `*` stands for all that begin so.
    pub tools: Vec<String>,
    /// The roles whose calls need approval if they do more than look.
    pub roles: Vec<Role>,
}

impl Approvals {
    /// The least role that may approve.
    pub const BY: Role = Role::Admin;

    /// Returns true if the tool is named.
    pub fn names(&self, tool: &str) -> bool {
        self.tools.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => tool.starts_with(beginning),
            None => tool == name,
        })
    }
}
