//! A model behind an API: one verb, [`Provider::stream`]. What is sent is built here from turns,
//! so that every wire format gets a valid transcript. Retry and fallback are providers around
//! providers; they are in their own files.

pub mod anthropic;
pub mod fallback;
pub mod openai;
pub mod rehearsal;
pub mod retry;

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream::BoxStream};
use serde_json::Value;

use crate::secret::Secret;
use crate::session::{Call, Ending, Step, Thinking, Turn};

/// One `[providers.NAME]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub kind: Kind,
    pub model: String,
    /// None where the endpoint wants none.
    pub api_key: Option<Secret>,
    /// Without a slash at the end; the vendor's own by default.
    pub base_url: String,
    /// The longest answer to ask for, in tokens.
    pub tokens_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Anthropic,
    /// Every OpenAI-compatible endpoint (chat completions).
    OpenAi,
    /// No model: rules that lead through the machine.
    Rehearsal,
}

/// One completion to be made.
pub struct Request<'a> {
    /// The system prompt, what changes least first; a cache may be cut after each part.
    pub system: &'a [String],
    pub tools: &'a [ToolSchema],
    pub messages: Vec<Message<'a>>,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// `[a-z0-9_]`, at most 64.
    pub name: String,
    pub description: String,
    /// JSON schema of an object.
    pub parameters: Value,
}

/// A message of the transcript. Roles alternate validly: results follow the calls they answer,
/// each call has exactly one, and two `User` messages never follow each other.
#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    User(String),
    Assistant { text: &'a str, thinking: &'a [Thinking], calls: &'a [Call] },
    Results(&'a [Call]),
}

/// The transcript of `turns` and of what was `heard` since, as messages.
pub fn messages<'a>(turns: &'a [Turn], heard: Option<&str>) -> Vec<Message<'a>> {
    let mut messages = Vec::new();
    for turn in turns {
        turn.steps.iter().for_each(|step| push_step(&mut messages, step));
        if let Some(note) = ending_note(turn) {
            messages.push(Message::Assistant { text: note, thinking: &[], calls: &[] });
        }
    }
    if let Some(heard) = heard {
        push_user(&mut messages, heard);
    }
    messages
}

fn push_step<'a>(messages: &mut Vec<Message<'a>>, step: &'a Step) {
    if let Some(heard) = &step.heard {
        push_user(messages, heard);
    }
    let Step { text, thinking, calls, .. } = step;
    if !text.is_empty() || !calls.is_empty() {
        messages.push(Message::Assistant { text, thinking, calls });
    }
    if !calls.is_empty() {
        messages.push(Message::Results(calls));
    }
}

fn push_user(messages: &mut Vec<Message<'_>>, heard: &str) {
    match messages.last_mut() {
        Some(Message::User(before)) => {
            before.push_str("\n\n");
            before.push_str(heard);
        }
        _ => messages.push(Message::User(heard.to_owned())),
    }
}

/// What stands for the answer of a turn that ended without one.
fn ending_note(turn: &Turn) -> Option<&'static str> {
    let answered =
        turn.steps.last().is_some_and(|step| !step.text.is_empty() && step.calls.is_empty());
    match turn.ending? {
        _ if answered => None,
        Ending::Answered => Some("[Answered without words.]"),
        Ending::Silent => Some("NO_REPLY"),
        Ending::Stopped => Some("[Stopped by the person.]"),
        Ending::Failed => Some("[This failed; the person was told why.]"),
    }
}

/// One piece of a completion as it arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    /// Reasoning for onlookers to read.
    Thinking(String),
    /// A whole block of reasoning, to be kept and passed back.
    ThinkingBlock(Thinking),
    /// A whole call; a provider joins the fragments.
    Call(ToolCall),
    Usage(Usage),
    /// A line for the person: that another provider answers, say.
    Note(String),
    /// The last one; a stream that ends without it was cut.
    End(StopReason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Never empty: a provider whose API gives none makes one up.
    pub id: String,
    pub name: String,
    /// JSON as the model wrote it.
    pub arguments: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    Done,
    Calls,
    /// The answer was cut at the model's limit.
    MaxTokens,
    Refused,
}

/// Tokens of one completion, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All tokens of the prompt, cached ones included.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

/// A finished completion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    pub text: String,
    pub thinking: Vec<Thinking>,
    pub calls: Vec<ToolCall>,
    pub usage: Usage,
    pub note: Option<String>,
    pub stop: Option<StopReason>,
}

pub type DeltaStream = BoxStream<'static, Result<Delta, ProviderError>>;

/// Sorted by who acts next.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Try again, or another: rate limit, overload, 5xx, network, a stalled or cut stream.
    #[error("{reason}")]
    Busy { after: Option<Duration>, reason: String },
    /// The agent shortens the prompt.
    #[error("the conversation is too long for the model")]
    TooLong,
    /// The operator acts: a wrong key, an unknown model, a bad request, no credit.
    #[error("{0}")]
    Refused(String),
}

impl ProviderError {
    pub fn busy(reason: impl Into<String>) -> Self {
        Self::Busy { after: None, reason: reason.into() }
    }
}

#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// The name of its config section and its model, as people are shown them: `main (qwen3:8b)`.
    fn name(&self) -> &str;

    /// Begins a completion. The stream ends after [`Delta::End`] or an error.
    async fn stream(&self, request: &Request<'_>) -> Result<DeltaStream, ProviderError>;
}

/// Makes a whole completion, showing each delta to `watch` on the way.
pub async fn complete(
    provider: &dyn Provider,
    request: &Request<'_>,
    mut watch: impl FnMut(&Delta),
) -> Result<Completion, ProviderError> {
    let mut stream = provider.stream(request).await?;
    let mut completion = Completion::default();
    while let Some(delta) = stream.next().await {
        let delta = delta?;
        watch(&delta);
        match delta {
            Delta::Text(text) => completion.text.push_str(&text),
            Delta::Thinking(_) => {}
            Delta::ThinkingBlock(block) => completion.thinking.push(block),
            Delta::Call(call) => completion.calls.push(call),
            Delta::Usage(usage) => completion.usage = usage,
            Delta::Note(note) => completion.note = Some(note),
            Delta::End(stop) => {
                completion.stop = Some(stop);
                return Ok(completion);
            }
        }
    }
    Err(ProviderError::busy("the answer was cut off in the middle"))
}
