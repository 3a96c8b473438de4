//! How much a model takes at once, where the config does not say; and about how much of that a text takes.

use url::Url;

use super::{Config, ToolSchema};

/// A token is about four letters of prose, or three and a half bytes of anything else: code,
/// figures, scripts that are not Latin. In parts of which 28 make a token.
const LETTER_WEIGHT: u64 = 7;
const OTHER_WEIGHT: u64 = 8;
const TOKEN_WEIGHT: u64 = 28;

/// What a tool costs besides its texts, in tokens.
const TOOL_FRAME_TOKENS: u64 = 8;

/// Families of models by how their names begin, with their context in tokens (the vendors' lists of
/// models). The first that fits counts.
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

/// Services that run models of all kinds in full; what they serve nowadays has this at least.
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

/// What a server of one's own is likely to have been started with.
const OTHERS_CONTEXT: u32 = 32_768;

/// The part of a context that is kept for the answer where nobody says how long it may be.
const ANSWER_PART: u32 = 8;

/// The context of a model at an address, in tokens, as far as it can be known.
pub fn default_context(model: &str, base_url: &str) -> u32 {
    // OpenRouter's names begin with the vendor's.
    let name = model.rsplit('/').next().unwrap_or(model);
    if let Some((_, context)) = FAMILIES.iter().find(|(family, _)| name.starts_with(family)) {
        return *context;
    }
    let host = Url::parse(base_url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let host = host.unwrap_or_default();
    let is_at = |domain: &&str| {
        host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if VENDORS.iter().any(is_at) { VENDORS_CONTEXT } else { OTHERS_CONTEXT }
}

/// About how many tokens a text has.
pub fn tokens(text: &str) -> u64 {
    let letters = text.bytes().filter(|byte| byte.is_ascii_alphabetic() || *byte == b' ').count();
    let others = text.len() - letters;
    (letters as u64 * LETTER_WEIGHT + others as u64 * OTHER_WEIGHT).div_ceil(TOKEN_WEIGHT)
}

impl ToolSchema {
    /// About how many tokens it has in a prompt. Its parameters are written as JSON for that.
    pub fn tokens(&self) -> u64 {
        let texts = tokens(&self.name) + tokens(&self.description);
        TOOL_FRAME_TOKENS + texts + tokens(&self.parameters.to_string())
    }
}

impl Config {
    /// Tokens that a prompt may have so that an answer still fits in behind it.
    pub fn room(&self) -> u64 {
        let answer = self.tokens_max.unwrap_or(self.context / ANSWER_PART);
        u64::from(self.context - answer.min(self.context / 2))
    }
}
