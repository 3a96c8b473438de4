//! A model behind an API: one verb, [`Provider::stream`]. What is sent is built here from turns,
//! so that every wire format gets a valid transcript. Retry, fallback and calls in text are
//! providers around providers; they are in their own files.

pub mod anthropic;
pub mod completion;
pub mod echo;
pub mod fallback;
pub mod fault;
pub mod http;
mod made;
pub mod listing;
pub mod models;
pub mod names;
pub mod offered;
pub mod openai;
pub mod prices;
pub mod rehearsal;
pub mod repetition;
pub mod retry;
mod default_window;
mod pictures;
pub mod text_tools;
pub mod transcription;
pub mod window;
pub mod wire;
mod word;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use completion::{Completion, Delta, StopReason, ToolCall, Usage};
pub use default_window::{default_context, is_vendor, tokens};
pub use http::HttpTimeouts;
pub use made::recorded_call;
pub use models::Models;
pub use pictures::{IMAGE_BYTES_MAX, IMAGES_MAX, Picture, Pictures, ReadPictures, count_shown};
pub use text_tools::{MALFORMED_CALL, is_lone_call};
pub use window::LearnedWindow;
pub use word::ask_for_a_word;

use crate::secret::Secret;
pub use crate::types::session::Effort;
use crate::types::session::{Call, Image, Step, Thinking, Turn, TurnOutcome};
use crate::types::words::words;

/// The answers of a server of one's own have a quarter of its context, within these bounds in tokens.
const OWN_ANSWER_PART: u32 = 4;
const OWN_ANSWER_MIN: u32 = 1_024;
const OWN_ANSWER_MAX: u32 = 8_192;

/// One `[providers.NAME]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub kind: ProviderKind,
    pub model: String,
    /// None where the endpoint wants none.
    pub api_key: Option<Secret>,
    /// Without a slash at the end; the vendor's own by default.
    pub base_url: String,
    /// The longest answer to ask for, in tokens; none leaves it to the server, if the API allows that.
    pub tokens_max: Option<u32>,
    /// The context window in tokens: prompt and answer together.
    pub context: u32,
    /// True if the config sets the context window. Otherwise it is assumed, and the server is asked.
    pub context_is_set: bool,
    pub tools: Tools,
    /// True if the model accepts pictures.
    pub images: bool,
    pub patience: Patience,
    /// The price of its tokens. None: the price table decides.
    pub price: Option<prices::Price>,
}

/// Timeouts of a provider, where its section sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// From the request to the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Between two bytes.
    pub stall: Option<Duration>,
}

impl Config {
    /// The longest answer to ask for, in tokens: on a server of one's own it is bounded, too.
    pub fn answer_tokens_max(&self) -> Option<u32> {
        let is_own = url::Url::parse(&self.base_url).is_ok_and(|url| crate::http::is_local(&url));
        let own = (self.context / OWN_ANSWER_PART).clamp(OWN_ANSWER_MIN, OWN_ANSWER_MAX);
        self.tokens_max.or(is_own.then_some(own))
    }
}

/// The way in which a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tools {
    /// As its API has it.
    #[default]
    Native,
    /// In its text, for models and servers that know nothing of tools.
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    Anthropic,
    /// Every OpenAI-compatible endpoint (chat completions).
    OpenAi,
    /// No model: rules that lead through the machine.
    Rehearsal,
}

words!(ProviderKind { Anthropic = "anthropic", OpenAi = "openai", Rehearsal = "rehearsal" });

/// One completion to be made.
pub struct Request<'a> {
    /// The system prompt, what changes least first; a cache may be cut after each part.
    pub system: &'a [String],
    pub tools: &'a [ToolSchema],
    /// True if the model may call tools now. Their schemas are sent in either case, for the cache.
    pub may_call: bool,
    pub effort: Effort,
    pub attempts: Attempts,
    /// The longest answer that a budget allows, in tokens; none leaves it to the provider's config.
    pub tokens_max: Option<u32>,
    pub messages: Vec<PromptMessage<'a>>,
    /// The available pictures of the messages. The model is told about the others in words only.
    pub pictures: &'a Pictures,
}

/// The number of attempts at a provider that cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempts {
    /// As often as a person would wait for.
    #[default]
    Usual,
    /// Once: it was away a moment ago, and whoever asks will ask again.
    Once,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// Ours: `[a-z0-9_]`, at most 64. What MCP servers name may have other signs; a provider
    /// respells what its API does not take.
    pub name: String,
    pub description: String,
    /// JSON schema of an object.
    pub parameters: Value,
}

/// A message of the transcript. Roles alternate validly: a `User` comes first, `Results` follow the
/// calls they answer, each call has exactly one, and neither two `User` nor two `Assistant`
/// messages follow each other.
#[derive(Debug, PartialEq)]
pub enum PromptMessage<'a> {
    /// The text is never blank.
    User {
        text: String,
        images: Vec<&'a Image>,
    },
    /// With words or calls or both; the text may be blank beside calls.
    Assistant {
        text: &'a str,
        thinking: &'a [Thinking],
        calls: &'a [Call],
    },
    Results(&'a [Call]),
}

/// Stands with the pictures of an answer that is a call's result.
const OF_ANSWER: &str = "[The pictures that came with the answer above.]";

/// Stands where the person said nothing, though a model must be given something to answer.
const GO_ON: &str = "[Go on.]";

/// The transcript of `turns` as messages. It ends with what the model is to answer: `User` or
/// `Results`.
pub fn messages(turns: &[Turn]) -> Vec<PromptMessage<'_>> {
    messages_after(None, turns)
}

/// The same, after words that stand for what was said before; they are part of the first message.
pub fn messages_after<'a>(before: Option<&str>, turns: &'a [Turn]) -> Vec<PromptMessage<'a>> {
    let mut messages = Vec::new();
    push_user(&mut messages, before.unwrap_or_default(), &[]);
    for turn in turns {
        let summarized = turn.steps.iter().take_while(|step| step.is_summarized).count();
        let (summarized, steps) = turn.steps.split_at(summarized);
        summarized.iter().for_each(|step| push_step(&mut messages, step));
        push_user(&mut messages, &made::calls_record(summarized).unwrap_or_default(), &[]);
        steps.iter().for_each(|step| push_step(&mut messages, step));
        if let Some(note) = ending_note(turn) {
            push_assistant(&mut messages, note, &[], &[]);
        }
    }
    if !matches!(messages.last(), Some(PromptMessage::User { .. } | PromptMessage::Results(_))) {
        push_user(&mut messages, GO_ON, &[]);
    }
    messages
}

fn push_step<'a>(messages: &mut Vec<PromptMessage<'a>>, step: &'a Step) {
    push_user(messages, step.input.as_deref().unwrap_or_default(), &step.images);
    if step.is_summarized {
        return;
    }
    let Step { text, thinking, calls, .. } = step;
    if !is_blank(text) || !calls.is_empty() {
        push_assistant(messages, text, thinking, calls);
    }
}

fn push_user<'a>(messages: &mut Vec<PromptMessage<'a>>, input: &str, seen: &'a [Image]) {
    if is_blank(input) {
        return;
    }
    match messages.last_mut() {
        Some(PromptMessage::User { text, images }) => {
            text.push_str("\n\n");
            text.push_str(input);
            images.extend(seen);
        }
        _ => {
            let (text, images) = (input.to_owned(), seen.iter().collect());
            messages.push(PromptMessage::User { text, images });
        }
    }
}

fn push_assistant<'a>(
    messages: &mut Vec<PromptMessage<'a>>,
    text: &'a str,
    thinking: &'a [Thinking],
    calls: &'a [Call],
) {
    if matches!(messages.last(), None | Some(PromptMessage::Assistant { .. })) {
        push_user(messages, GO_ON, &[]);
    }
    messages.push(PromptMessage::Assistant { text, thinking, calls });
    if !calls.is_empty() {
        messages.push(PromptMessage::Results(calls));
    }
    // Not all formats take pictures within a result.
    for call in calls.iter().filter(|call| !call.images.is_empty()) {
        push_user(messages, OF_ANSWER, &call.images);
    }
}

/// The tool whose result is what a person answered.
pub const ASK_QUESTION: &str = "ask_question";

/// The calls that end a turn, whose words are then the answer.
pub const COMPLETION: &str = "task_completion";
pub const CONVERSE: &str = "converse";

/// Returns the note that replaces the answer of a turn that ended without one.
fn ending_note(turn: &Turn) -> Option<&'static str> {
    let last = turn.steps.last()?;
    match turn.ending? {
        _ if !is_blank(&last.text) && last.calls.is_empty() => None,
        TurnOutcome::Answered
            if last.calls.iter().any(|call| [COMPLETION, CONVERSE].contains(&&*call.tool)) =>
        {
            Some("[Sent.]")
        }
        TurnOutcome::Answered => Some("[Answered without words.]"),
        TurnOutcome::Silent => Some("NO_REPLY"),
        TurnOutcome::Stopped => Some("[Stopped by the person.]"),
        TurnOutcome::Failed => Some("[This failed; the person was told why.]"),
    }
}

/// Vendors refuse texts without a visible character.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Borrows the request, which retry and fallback may have to send again.
pub type DeltaStream<'a> = BoxStream<'a, Result<Delta, ProviderError>>;

/// Sorted by who acts next.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Wait, try again, or try another: it cannot be reached, rate limit, overload, 5xx, no answer has begun.
    #[error("{reason}")]
    Busy { after: Option<Duration>, reason: String },
    /// Try again, or another; waiting does not help: the answer was cut off, or cannot be read.
    #[error("{0}")]
    Broken(String),
    /// Try another, or ask the person: the model fell silent in the middle of its answer.
    #[error("{0}")]
    Stalled(String),
    /// The agent shortens the prompt.
    #[error("the conversation is too long for the model")]
    TooLong,
    /// The operator acts: a wrong key, an unknown model, a bad request, no credit.
    #[error("{0}")]
    Refused(String),
    /// The person waits, or the owner raises the budget. No model was called. The words are for the person.
    #[error("{0}")]
    OverBudget(String),
}

impl ProviderError {
    pub fn busy(reason: impl Into<String>) -> Self {
        Self::Busy { after: None, reason: reason.into() }
    }

    /// The stream ended before its end.
    fn cut() -> Self {
        Self::Broken("the answer was cut off in the middle".to_owned())
    }
}

/// The rest of 128,000 tokens, the smallest window of most models, after an answer of usual length.
const ROOM: u64 = 112_000;

#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// The name of its config section and its model, as people are shown them: `main (qwen3:8b)`.
    fn name(&self) -> &str;

    /// Returns true if the model accepts pictures.
    fn sees(&self) -> bool {
        false
    }

    /// Tokens that a prompt may have: the model's context without what its answer needs.
    fn context_window(&self) -> u64 {
        ROOM
    }

    /// The context window that was learned from the server, if it is another than was thought.
    fn learned_window(&self) -> Option<LearnedWindow> {
        None
    }

    /// Asks the server for its context window, where that is not known and the server can tell. Bounded in time.
    async fn learn_window(&self) {}

    /// Begins a completion. The stream ends after [`Delta::End`] or an error.
    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError>;
}

/// The provider that a config section describes, with retries. `name` is that of the section.
///
/// # Errors
/// The base URL or the key cannot be used at all.
pub fn connect(name: &str, config: &Config) -> anyhow::Result<Arc<dyn Provider>> {
    let limits = HttpTimeouts::for_provider(config);
    let bare: Arc<dyn Provider> = match config.kind {
        ProviderKind::Anthropic => Arc::new(anthropic::Anthropic::new(name, config, limits)?),
        ProviderKind::OpenAi => Arc::new(openai::OpenAi::new(name, config, limits)?),
        ProviderKind::Rehearsal => return Ok(Arc::new(rehearsal::Rehearsal)),
    };
    let reading = Arc::new(text_tools::TextTools::new(bare, config.tools));
    let watched =
        Arc::new(repetition::WithoutRepetition::new(Arc::new(echo::WithoutEchoes::new(reading))));
    Ok(Arc::new(retry::Retry::new(watched, retry::RetryOptions::default())))
}

/// Providers as one: the first answers, the others are its fallbacks in this order.
///
/// # Panics
/// If there are none.
pub fn chain(mut providers: Vec<Arc<dyn Provider>>) -> Arc<dyn Provider> {
    if providers.len() == 1 {
        providers.remove(0)
    } else {
        Arc::new(fallback::Fallback::new(providers))
    }
}

/// Makes a whole completion, showing each delta to `watch` on the way.
pub async fn complete(
    provider: &dyn Provider,
    request: &Request<'_>,
    mut watch: impl FnMut(&Delta),
) -> Result<Completion, ProviderError> {
    let mut stream = begin(provider, request);
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
            Delta::By(name) => completion.by = Some(name),
            Delta::Restart => {
                let Completion { note, by, usage, mut wasted, .. } = completion;
                wasted.add(usage);
                completion = Completion { note, by, wasted, ..Completion::default() };
            }
            Delta::End(stop) => {
                completion.stop = Some(stop);
                return Ok(completion);
            }
        }
    }
    Err(ProviderError::cut())
}

/// A completion whose failure to begin is the stream's first item.
fn begin<'a>(provider: &'a dyn Provider, request: &'a Request<'a>) -> DeltaStream<'a> {
    stream::once(provider.stream(request)).try_flatten().boxed()
}
