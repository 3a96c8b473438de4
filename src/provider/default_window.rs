//! Default context windows of models, for configs that set none, and an estimate of the tokens of a text.

use url::Url;

use super::ToolSchema;

/// Weights of bytes, of which 28 make a token. A token is about four letters of prose, or three and a half bytes
/// of anything else: code, figures, scripts that are not Latin.
const LETTER_WEIGHT: u64 = 7;
const OTHER_WEIGHT: u64 = 8;
const TOKEN_WEIGHT: u64 = 28;

/// Tokens of a tool besides its texts.
const TOOL_FRAME_TOKENS: u64 = 8;

/// Families of models by the beginning of their names, with their context in tokens (the vendors' lists of
/// models). The first match counts.
const FAMILIES: &[(&str, u32)] = &[
    ("claude-", 200_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8_192),
    ("gpt-3.5", 16_385),
    // 400,000, of which a prompt may have 272,000.
    ("gpt-5", 288_384),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("gemini-", 1_048_576),
];

/// Services that run models of all kinds with their full context: nowadays [`VENDORS_CONTEXT`] tokens at least.
const VENDORS: &[&str] = &[
    "anthropic.com",
    "openai.com",
    "openai.azure.com",
    "openrouter.ai",
    "googleapis.com",
    "deepseek.com",
    "groq.com",
    "mistral.ai",
    "x.ai",
    "together.xyz",
    "fireworks.ai",
    "moonshot.ai",
];
const VENDORS_CONTEXT: u32 = 128_000;

/// The probable window of the owner's own server, in tokens.
const OTHERS_CONTEXT: u32 = 32_768;

/// Returns the assumed context window of a model at an address, in tokens.
pub fn default_context(model: &str, base_url: &str) -> u32 {
    // OpenRouter's names begin with the vendor's.
    let name = model.rsplit('/').next().unwrap_or(model);
    if let Some((_, context)) = FAMILIES.iter().find(|(family, _)| name.starts_with(family)) {
        return *context;
    }
    let is_vendors = Url::parse(base_url).is_ok_and(|url| is_vendor(&url));
    if is_vendors { VENDORS_CONTEXT } else { OTHERS_CONTEXT }
}

/// Returns true for an address of a service that runs models with their full context, so that it need not be asked.
pub fn is_vendor(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let is_at = |domain: &&str| {
        host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    VENDORS.iter().any(is_at)
}

/// Estimates the tokens of a text.
pub fn tokens(text: &str) -> u64 {
    let letters = text.bytes().filter(|byte| byte.is_ascii_alphabetic() || *byte == b' ').count();
    let others = text.len() - letters;
    (letters as u64 * LETTER_WEIGHT + others as u64 * OTHER_WEIGHT).div_ceil(TOKEN_WEIGHT)
}

impl ToolSchema {
    /// Estimates its tokens in a prompt, with the parameters as JSON.
    pub fn tokens(&self) -> u64 {
        let texts = tokens(&self.name) + tokens(&self.description);
        TOOL_FRAME_TOKENS + texts + tokens(&self.parameters.to_string())
    }
}
