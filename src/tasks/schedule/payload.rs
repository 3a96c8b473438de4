//! The work of a job: a text to send, a prompt for a model, or a command.

use serde::{Deserialize, Serialize};

use crate::tasks::schedule::preapproved_calls::PreapprovedCalls;

/// The work of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// A text is sent verbatim, without a model.
    Message(String),
    /// A model works on a prompt. Before that, a command (the check) may report that there is nothing to do.
    Prompt {
        text: String,
        session: JobConversation,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<String>,
        /// The call of a webhook that the model works on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        webhook: Option<WebhookBody>,
        #[serde(default, skip_serializing_if = "PreapprovedCalls::is_none")]
        unasked: PreapprovedCalls,
    },
    /// A command is run, and its output is sent.
    Command(String),
}

/// The content of a webhook's call, which is untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookBody {
    pub hook: String,
    pub body: String,
}

impl Payload {
    pub fn text(&self) -> &str {
        match self {
            Self::Message(text) | Self::Prompt { text, .. } | Self::Command(text) => text,
        }
    }

    /// Returns the calls that its runs may make unasked, if any.
    pub fn unasked(&self) -> Option<&PreapprovedCalls> {
        match self {
            Self::Prompt { unasked, .. } => Some(unasked).filter(|unasked| !unasked.is_none()),
            Self::Message(_) | Self::Command(_) => None,
        }
    }

    /// Returns the shell command that runs first or alone.
    pub fn command(&self) -> Option<&str> {
        match self {
            Self::Message(_) => None,
            Self::Prompt { check, .. } => check.as_deref(),
            Self::Command(command) => Some(command),
        }
    }
}

/// The conversation in which a model works on a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobConversation {
    /// A new conversation, without the content of others.
    #[default]
    Own,
    /// The conversation at the job's address.
    Here,
}
