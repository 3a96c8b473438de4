//! What single hosts of chat completions want otherwise than the rest. All others are spoken to in
//! what all of them know.

use serde_json::{Value, json};
use url::Url;

use crate::provider::Effort;
use crate::provider::wire::CallIds;

/// How a host wants its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's own, which is particular where its models are new.
    OpenAi,
    Mistral,
    /// A house of many models, with one word for the effort of all.
    OpenRouter,
    /// All who imitate OpenAI.
    Common,
}

impl Dialect {
    pub(super) fn of(url: &Url) -> Self {
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

    /// OpenAI's newer models refuse `max_tokens`, and most imitators know nothing else.
    pub(super) fn limit_field(self) -> &'static str {
        match self {
            Self::OpenAi => "max_completion_tokens",
            Self::Mistral | Self::OpenRouter | Self::Common => "max_tokens",
        }
    }

    /// Whether usage has to be asked for; Mistral tells it unasked, and refuses fields it does not
    /// know.
    pub(super) fn has_stream_options(self) -> bool {
        self != Self::Mistral
    }

    /// The field that asks for an effort. OpenAI's differ by model in how little they can do (API
    /// reference, `reasoning_effort`), and those that do not reason refuse the field. OpenRouter has an
    /// object for all its models ("Reasoning Tokens"). Mistral refuses fields it does not know.
    pub(super) fn effort(self, effort: Effort, model: &str) -> Option<(String, Value)> {
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

/// `none` came with gpt-5.1; before, `minimal` was the least of gpt-5 and `low` that of the o series.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_host_by_its_name() {
        let dialect = |host| Dialect::of(&Url::parse(&format!("https://{host}/v1")).unwrap());
        for host in ["api.openai.com", "eu.api.openai.com", "mine.openai.azure.com"] {
            assert_eq!(dialect(host), Dialect::OpenAi, "{host}");
        }
        assert_eq!(dialect("api.mistral.ai"), Dialect::Mistral);
        assert_eq!(dialect("openrouter.ai"), Dialect::OpenRouter);
        for host in ["127.0.0.1:11434", "notapi.openai.com", "api.openai.com.example"] {
            assert_eq!(dialect(host), Dialect::Common, "{host}");
        }
    }

    #[test]
    fn asks_each_for_an_effort_in_its_own_words() {
        let said = |dialect: Dialect, effort, model| {
            dialect.effort(effort, model).map(|(field, value)| format!("{field} {value}"))
        };
        for (dialect, effort, model, expected) in [
            (Dialect::Common, Effort::Default, "qwen3:8b", None),
            (Dialect::Common, Effort::Off, "qwen3:8b", Some(r#"reasoning_effort "none""#)),
            (Dialect::Common, Effort::Medium, "qwen3:8b", Some(r#"reasoning_effort "medium""#)),
            (Dialect::OpenRouter, Effort::High, "x/y", Some(r#"reasoning {"effort":"high"}"#)),
            (Dialect::OpenAi, Effort::Off, "gpt-5.1", Some(r#"reasoning_effort "none""#)),
            (Dialect::OpenAi, Effort::Off, "gpt-5-mini", Some(r#"reasoning_effort "minimal""#)),
            (Dialect::OpenAi, Effort::Off, "o4-mini", Some(r#"reasoning_effort "low""#)),
            (Dialect::OpenAi, Effort::Low, "gpt-5-pro", Some(r#"reasoning_effort "high""#)),
            (Dialect::OpenAi, Effort::High, "gpt-4.1", None),
            (Dialect::Mistral, Effort::High, "magistral", None),
        ] {
            assert_eq!(said(dialect, effort, model).as_deref(), expected, "{effort:?} {model}");
        }
    }
}
