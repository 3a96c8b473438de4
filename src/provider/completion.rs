//! A completion: its pieces as they arrive, and the whole.

use serde::Serialize;

use crate::types::session::Thinking;

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
    /// The numbers of facts of the prompt that the answer rests on, where the API separates them from its text.
    UsedFacts(Vec<i64>),
    Usage(Usage),
    /// A line for the person, such as that another provider answers.
    Note(String),
    /// The name of the provider that answers in place of the one that was asked.
    AnsweredBy(String),
    /// The answer begins again: everything before is to be dropped, except for notes.
    Restart,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// All tokens of the prompt, cached ones included.
    pub input: u64,
    pub cached: u64,
    /// Tokens of the input that were written to the provider's cache, where that has a price of its own.
    pub cache_written: u64,
    pub output: u64,
}

impl Usage {
    /// Adds the tokens of another completion.
    pub fn add(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.cache_written += other.cache_written;
        self.output += other.output;
    }
}

/// A finished completion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    pub text: String,
    pub thinking: Vec<Thinking>,
    pub calls: Vec<ToolCall>,
    pub usage: Usage,
    /// Tokens of attempts that broke off before this one.
    pub wasted: Usage,
    /// The name of the provider that has answered, if it is not the one that was asked.
    pub by: Option<String>,
    pub note: Option<String>,
    /// The numbers of the facts that the answer rests on, according to the model: of those in the request, each once.
    pub used_facts: Vec<i64>,
    pub stop: Option<StopReason>,
}
