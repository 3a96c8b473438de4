//! The settings of questions: the calls that must be approved, the roles that approve them, and the timeouts.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::people::Role;

/// The calls that need approval, and the time that people have to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub approvals: Approvals,
    /// Time after which a missing answer counts as a refusal, in a private chat and in a group.
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
            // A group does not wait long for a suspended turn.
            group_approval_time: Duration::from_secs(5 * 60),
            // The conversation waits meanwhile.
            question_time: Duration::from_secs(60 * 60),
            untrusted: OnUntrusted::default(),
        }
    }
}

/// The calls that must be approved. By default none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Names of tools. A name that ends in `*` stands for all names with this beginning.
    pub tools: Vec<String>,
    /// The roles whose calls need approval if they do more than read.
    pub roles: Vec<Role>,
}

impl Approvals {
    /// The least role that may approve.
    pub const BY: Role = Role::Admin;

    /// Returns true if the tool is named.
    pub fn names(&self, tool: &str) -> bool {
        self.tools.iter().any(|name| match name.strip_suffix('*') {
            Some(prefix) => tool.starts_with(prefix),
            None => tool == name,
        })
    }
}
