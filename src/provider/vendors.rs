//! The vendors whose models a key alone gives access to. Data only. Not here: the models of a server of one's own
//! (`listing`).

use super::ProviderKind;

/// The addresses of the two APIs' own vendors.
const ANTHROPIC_URL: &str = "https://api.anthropic.com";
pub const OPENAI_URL: &str = "https://api.openai.com/v1";

/// A vendor that a key alone gives access to.
pub struct Vendor {
    /// The name of its section in a config.
    pub word: &'static str,
    /// The name for people.
    pub title: &'static str,
    pub kind: ProviderKind,
    /// The model where none is named.
    pub model: &'static str,
    pub base_url: &'static str,
    /// The environment variable with the key.
    pub key_variable: &'static str,
    /// The environment variable with another address, such as a proxy's.
    pub address_variable: &'static str,
    /// The page on which people create keys.
    pub keys_page: &'static str,
}

/// The first that has a key answers; the others are its fallbacks, in this order.
pub const VENDORS: [Vendor; 3] = [
    Vendor {
        word: "anthropic",
        title: "Claude, by Anthropic",
        kind: ProviderKind::Anthropic,
        model: "claude-sonnet-4-5",
        base_url: ANTHROPIC_URL,
        key_variable: "ANTHROPIC_API_KEY",
        address_variable: "ANTHROPIC_BASE_URL",
        keys_page: "https://console.anthropic.com/settings/keys",
    },
    Vendor {
        word: "openai",
        title: "GPT, by OpenAI",
        kind: ProviderKind::OpenAi,
        model: "gpt-5-mini",
        base_url: OPENAI_URL,
        key_variable: "OPENAI_API_KEY",
        address_variable: "OPENAI_BASE_URL",
        keys_page: "https://platform.openai.com/api-keys",
    },
    Vendor {
        word: "openrouter",
        title: "OpenRouter, with models of many vendors",
        kind: ProviderKind::OpenAi,
        model: "openrouter/auto",
        base_url: "https://openrouter.ai/api/v1",
        key_variable: "OPENROUTER_API_KEY",
        address_variable: "OPENROUTER_BASE_URL",
        keys_page: "https://openrouter.ai/settings/keys",
    },
];

/// Returns the address of a section that names none: that of the API's own vendor.
pub fn default_url(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Anthropic => ANTHROPIC_URL,
        ProviderKind::OpenAi | ProviderKind::Rehearsal => OPENAI_URL,
    }
}
