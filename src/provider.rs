//! A model behind an API: one verb, [`Provider::stream`]. What is sent is built here from turns,
//! so that every wire format gets a valid transcript. Retry, fallback and calls in text are
//! providers around providers; they are in their own files.

pub mod answer_reader;
mod answer_schema;
pub mod anthropic;
mod api;
pub mod completion;
mod completing;
mod config;
mod default_window;
pub mod echo;
pub mod fallback;
pub mod fault;
pub mod http;
pub mod in_use;
pub mod listing;
mod made;
pub mod models;
pub mod names;
pub mod offered;
pub mod openai;
mod pictures;
pub mod prices;
pub mod rehearsal;
pub mod repetition;
mod request;
pub mod retry;
pub mod text_tools;
pub mod transcription;
pub mod window;
pub mod wire;
mod used_marker;
mod word;

use std::sync::Arc;

pub use answer_schema::{AnswerForm, takes_schema};
pub use api::{DeltaStream, Provider, ProviderError, ProviderLayer};
pub use completing::{complete, complete_within};
pub use completion::{Completion, Delta, StopReason, ToolCall, Usage};
pub use config::{Config, Patience, ProviderKind, Structured, Tools};
pub use default_window::{default_context, is_vendor, tokens};
pub use http::HttpTimeouts;
pub use made::recorded_call;
pub use models::Models;
pub use pictures::{IMAGE_BYTES_MAX, IMAGES_MAX, Picture, Pictures, ReadPictures, count_shown};
pub use request::{
    ASK_QUESTION, Attempts, COMPLETION, CONVERSE, PromptMessage, Request, ToolSchema, messages,
    messages_after,
};
pub use text_tools::{MALFORMED_CALL, answer_in_lone_call, is_lone_call};
pub use used_marker::system_asking;
pub use window::LearnedWindow;
pub use word::ask_for_a_word;

pub use crate::types::session::Effort;

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
