//! A model behind an API: one method, [`Provider::stream`], and the completion that is made of its deltas. This
//! module builds requests from turns, so that every wire format gets a valid transcript. Retry, fallback and calls
//! in text are providers that wrap others, in their own files. Not here: the choice of a conversation's model, and
//! the budget of a person (`turn`).

pub mod answer_reader;
mod answer_schema;
pub mod anthropic;
mod api;
pub mod completion;
mod config;
mod default_window;
pub mod echo;
pub mod fallback;
pub mod fault;
pub mod http;
pub mod in_use;
pub mod listing;
mod call_record;
pub mod models;
pub mod names;
pub mod tool_json;
pub mod openai;
mod pictures;
pub mod prices;
pub mod rehearsal;
pub mod repetition;
mod request;
pub mod retry;
pub mod text_tools;
pub mod transcription;
pub mod troubles;
pub mod vendors;
pub mod window;
pub mod wire;
mod used_marker;
mod probe;

use std::sync::Arc;

use futures_util::StreamExt;

pub use answer_schema::{AnswerForm, takes_schema};
pub use api::{DeltaStream, Provider, ProviderError, ProviderLayer};
pub use call_record::describe_call;
pub use completion::{Completion, Delta, StopReason, ToolCall, Usage};
pub use config::{Config, HttpTimeouts, ProviderKind, ProviderTimeouts, Structured, Tools};
pub use default_window::{default_context, is_vendor, tokens};
pub use models::Models;
pub use pictures::{IMAGE_BYTES_MAX, IMAGES_MAX, Picture, Pictures, ReadPictures, count_shown};
pub use probe::probe_model;
pub use request::{
    ASK_QUESTION, Attempts, COMPLETION, CONVERSE, PromptMessage, Request, ToolSchema, messages,
    transcript_as_messages,
};
pub use text_tools::{MALFORMED_CALL, answer_in_lone_call, is_lone_call};
pub use used_marker::system_asking;
pub use window::LearnedWindow;

pub use crate::types::session::Effort;
use api::begin_stream;
use used_marker::UsedMarkFilter;

/// Makes a whole completion, and passes each delta to `watch` on the way.
pub async fn complete(
    provider: &dyn Provider,
    request: &Request<'_>,
    mut watch: impl FnMut(&Delta),
) -> Result<Completion, ProviderError> {
    let watch = |delta: &Delta| {
        watch(delta);
        Ok(())
    };
    complete_checked(provider, request, watch).await
}

/// Makes a completion of at most `bytes_max` bytes of text, reasoning and arguments. A longer one ends with an error.
pub async fn complete_within(
    provider: &dyn Provider,
    request: &Request<'_>,
    bytes_max: usize,
) -> Result<Completion, ProviderError> {
    let mut bytes = 0_usize;
    let check = |delta: &Delta| {
        match delta {
            Delta::Text(text) | Delta::Thinking(text) => bytes += text.len(),
            Delta::Call(call) => bytes += call.arguments.len(),
            _ => {}
        }
        match bytes > bytes_max {
            true => Err(ProviderError::Refused("the model's answer is too long".to_owned())),
            false => Ok(()),
        }
    };
    complete_checked(provider, request, check).await
}

/// Makes a completion. An error of `check` ends it.
async fn complete_checked(
    provider: &dyn Provider,
    request: &Request<'_>,
    mut check: impl FnMut(&Delta) -> Result<(), ProviderError>,
) -> Result<Completion, ProviderError> {
    let mut stream = begin_stream(provider, request);
    let mut completion = Completion::default();
    let asks_for_facts = !request.facts.is_empty();
    let mut marks = UsedMarkFilter::default();
    while let Some(delta) = stream.next().await {
        let delta = match delta? {
            Delta::Text(text) if asks_for_facts => Delta::Text(marks.push(&text)),
            ends @ (Delta::Call(_) | Delta::End(_)) => {
                let (rest, used) = marks.end();
                completion.used_facts.extend(used);
                if !rest.is_empty() {
                    completion.text.push_str(&rest);
                    check(&Delta::Text(rest))?;
                }
                ends
            }
            other => other,
        };
        if matches!(&delta, Delta::Text(text) if text.is_empty()) {
            continue;
        }
        check(&delta)?;
        match delta {
            Delta::Text(text) => completion.text.push_str(&text),
            Delta::Thinking(_) => {}
            Delta::ThinkingBlock(block) => completion.thinking.push(block),
            Delta::Call(call) => completion.calls.push(call),
            Delta::UsedFacts(used) => completion.used_facts.extend(used),
            Delta::Usage(usage) => completion.usage = usage,
            Delta::Note(note) => completion.note = Some(note),
            Delta::AnsweredBy(name) => completion.by = Some(name),
            Delta::Restart => {
                marks = UsedMarkFilter::default();
                let Completion { note, by, usage, mut wasted, .. } = completion;
                wasted.add(usage);
                completion = Completion { note, by, wasted, ..Completion::default() };
            }
            Delta::End(stop) => {
                completion.stop = Some(stop);
                let used = &mut completion.used_facts;
                used.retain(|id| request.facts.contains(id));
                used.sort_unstable();
                used.dedup();
                return Ok(completion);
            }
        }
    }
    Err(ProviderError::cut())
}

/// Creates the provider of a config section, with retries. `name` is that of the section.
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
    let with_text_calls = Arc::new(text_tools::TextTools::new(bare, config.tools));
    let watched = Arc::new(repetition::WithoutRepetition::new(Arc::new(echo::WithoutEchoes::new(
        with_text_calls,
    ))));
    Ok(Arc::new(retry::Retry::new(watched, retry::RetryOptions::default())))
}

/// Joins providers: the first answers, the others are its fallbacks in this order.
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
