//! What single hosts of chat completions want otherwise than the rest. All others are spoken to in
//! what all of them know.

use url::Url;

use crate::provider::wire::CallIds;

/// How a host wants its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's own, which is particular where its models are new.
    OpenAi,
    Mistral,
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
        } else {
            Self::Common
        }
    }

    /// OpenAI's newer models refuse `max_tokens`, and most imitators know nothing else.
    pub(super) fn limit_field(self) -> &'static str {
        match self {
            Self::OpenAi => "max_completion_tokens",
            Self::Mistral | Self::Common => "max_tokens",
        }
    }

    /// Whether usage has to be asked for; Mistral tells it unasked, and refuses fields it does not
    /// know.
    pub(super) fn has_stream_options(self) -> bool {
        self != Self::Mistral
    }

    pub(super) fn call_ids(self) -> CallIds {
        match self {
            Self::Mistral => CallIds::of_nine_letters(),
            Self::OpenAi | Self::Common => CallIds::of_any_letters(),
        }
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
        for host in ["127.0.0.1:11434", "notapi.openai.com", "api.openai.com.example"] {
            assert_eq!(dialect(host), Dialect::Common, "{host}");
        }
    }
}
