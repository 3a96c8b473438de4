//! Differences between hosts of chat completions. All other hosts get the common form.

use serde_json::{Value, json};
use url::Url;

use crate::provider::Effort;
use crate::provider::wire::CallIds;

/// The form in which a host expects requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostDialect {
    /// OpenAI itself, which is strict where its models are new.
    OpenAi,
    Mistral,
    /// A host of many models, with one field for the effort of all.
    OpenRouter,
    /// All OpenAI-compatible servers.
    Common,
}

impl HostDialect {
    /// Returns the dialect of the host in `url`.
    pub fn of(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let is_at = |domain: &str| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if is_at("api.openai.com") || is_at("openai.azure.com") {
            Self::OpenAi
        } else if host == "api.mistral.ai" {
            Self::Mistral
        } else if is_at("openrouter.ai") {
            Self::OpenRouter
        } else {
            Self::Common
        }
    }

    /// Returns the field for the token limit. OpenAI's newer models refuse `max_tokens`, and most
    /// compatible servers know nothing else.
    pub(super) fn limit_field(self) -> &'static str {
        match self {
            Self::OpenAi => "max_completion_tokens",
            Self::Mistral | Self::OpenRouter | Self::Common => "max_tokens",
        }
    }

    /// Returns true if usage must be requested. Mistral reports it without a request, and refuses unknown
    /// fields.
    pub(super) fn has_stream_options(self) -> bool {
        self != Self::Mistral
    }

    /// Returns the field for the reasoning effort, and its value. None leaves it to the model. OpenAI's
    /// models differ in their lowest effort (API reference, `reasoning_effort`), and those that do not
    /// reason refuse the field. OpenRouter has an object for all its models ("Reasoning Tokens"). Mistral
    /// refuses unknown fields.
    pub fn effort(self, effort: Effort, model: &str) -> Option<(String, Value)> {
        let word = match effort {
            Effort::Default => return None,
            Effort::Off => "none",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
        };
        let word = match self {
            Self::Mistral => return None,
            Self::OpenRouter => return Some(("reasoning".to_owned(), json!({"effort": word}))),
            Self::OpenAi => openai_word(word, model)?,
            Self::Common => word,
        };
        Some(("reasoning_effort".to_owned(), json!(word)))
    }

    pub(super) fn call_ids(self) -> CallIds {
        match self {
            Self::Mistral => CallIds::of_nine_letters(),
            Self::OpenAi | Self::OpenRouter | Self::Common => CallIds::of_any_letters(),
        }
    }
}

/// Returns OpenAI's word for an effort. `none` exists since gpt-5.1; before, `minimal` was the lowest of
/// gpt-5 and `low` that of the o series.
fn openai_word(word: &'static str, model: &str) -> Option<&'static str> {
    let is_of = |families: &[&str]| families.iter().any(|family| model.starts_with(family));
    match word {
        _ if is_of(&["gpt-3", "gpt-4", "chatgpt"]) || model.contains("-chat") => None,
        _ if is_of(&["gpt-5-pro"]) => Some("high"),
        "none" if is_of(&["o1", "o3", "o4"]) => Some("low"),
        "none" if model == "gpt-5" || is_of(&["gpt-5-"]) => Some("minimal"),
        word => Some(word),
    }
}
