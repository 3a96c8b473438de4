//! The known context window of a model: from the config, from its server, or from an error. Parsing the numbers
//! is pure; the provider asks for them.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::Config;

/// Minimum context window of a chat model. A smaller number is one of something else.
const TOKENS_LEAST: u32 = 512;

/// Maximum number of completions before which a server is asked that has not loaded its model yet.
const ASKED_MAX: u32 = 4;

/// The part of a context that is reserved for the answer if the config sets no maximum length.
const ANSWER_PART: u32 = 8;

/// A provider's context window. Shared by all who send requests to it.
#[derive(Debug)]
pub struct ContextWindow {
    /// The provider's name, for the log.
    name: String,
    /// The window from the config, or the assumed one.
    given: u32,
    is_set: bool,
    answer: Option<u32>,
    /// 0: not learned.
    learned: AtomicU32,
    asked: AtomicU32,
}

/// A learned window that differs from the assumed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedWindow {
    /// The window from the config, or the assumed one.
    pub given: u32,
    /// True if the config sets it.
    pub is_set: bool,
    pub tokens: u32,
}

/// A server's statement about its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerWindow {
    Tokens(u32),
    /// The server reports it once the model is loaded.
    NotLoaded,
    Unknown,
}

impl ContextWindow {
    pub fn new(name: &str, config: &Config) -> Self {
        Self {
            name: name.to_owned(),
            given: config.context,
            is_set: config.context_is_set,
            answer: config.tokens_max,
            learned: AtomicU32::new(0),
            asked: AtomicU32::new(0),
        }
    }

    /// Returns the tokens of prompt and answer together.
    pub fn context(&self) -> u32 {
        match self.learned.load(Ordering::Relaxed) {
            0 => self.given,
            learned => learned,
        }
    }

    /// Returns the maximum tokens of a prompt that leaves enough for an answer.
    pub fn context_window(&self) -> u64 {
        let context = self.context();
        let answer = self.answer.unwrap_or(context / ANSWER_PART);
        u64::from(context - answer.min(context / 2))
    }

    /// Returns the learned window, if it differs from the assumed one.
    pub fn learned(&self) -> Option<LearnedWindow> {
        let tokens = self.context();
        let Self { given, is_set, .. } = *self;
        (tokens != given).then_some(LearnedWindow { given, is_set, tokens })
    }

    /// Returns true if the server is to be asked before the next completion. Never if the config sets the window.
    pub(super) fn is_to_be_asked(&self) -> bool {
        !self.is_set
            && self.learned.load(Ordering::Relaxed) == 0
            && self.asked.fetch_add(1, Ordering::Relaxed) < ASKED_MAX
    }

    /// Records the server's answer about its window.
    pub(super) fn note_answer(&self, answer: ServerWindow) {
        match answer {
            ServerWindow::Tokens(tokens) => self.learn(tokens, "its server says so"),
            ServerWindow::NotLoaded => {}
            ServerWindow::Unknown => self.asked.store(ASKED_MAX, Ordering::Relaxed),
        }
    }

    /// Records the window that a refusal names. If it is smaller, it replaces that of the config, too.
    pub(super) fn refused(&self, tokens: u32) {
        if tokens < self.context() {
            self.learn(tokens, "it refused a longer prompt");
        }
    }

    fn learn(&self, tokens: u32, why: &str) {
        if tokens < TOKENS_LEAST || self.learned.swap(tokens, Ordering::Relaxed) == tokens {
            return;
        }
        let Self { name, given, .. } = self;
        tracing::info!(provider = %name, tokens, given, why, "Learned a context window");
    }
}

/// Returns the window that servers report: in vLLM's list of models, llama.cpp's properties, Ollama's loaded models.
/// Ollama cuts prompts at the context with which it has loaded the model, whatever the model was trained for.
pub fn server_window(
    model: &str,
    models: Option<&Value>,
    props: Option<&Value>,
    loaded: Option<&Value>,
) -> ServerWindow {
    let number = |value: &Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
    let list = |value: Option<&Value>, key: &str| -> Option<Vec<Value>> {
        value?.get(key)?.as_array().cloned()
    };
    let of_vllm = list(models, "data").and_then(|all| {
        let named = all.iter().find(|it| it["id"] == model);
        number(&named.or(all.first())?["max_model_len"])
    });
    let of_llama = || number(&props?["default_generation_settings"]["n_ctx"]);
    if let Some(tokens) = of_vllm.or_else(of_llama) {
        return ServerWindow::Tokens(tokens);
    }
    let Some(loaded) = list(loaded, "models") else { return ServerWindow::Unknown };
    let latest = format!("{model}:latest");
    let is_this_model = |it: &&Value| {
        ["name", "model"].iter().any(|key| it[*key] == model || it[*key] == latest.as_str())
    };
    match loaded.iter().find(is_this_model) {
        None => ServerWindow::NotLoaded,
        // Older versions of Ollama do not report it.
        Some(it) => match number(&it["context_length"]) {
            Some(tokens) => ServerWindow::Tokens(tokens),
            None => ServerWindow::Unknown,
        },
    }
}

/// Phrases before the number of tokens in refusals, in lower case.
const BEFORE_NUMBER: [&str; 6] = [
    "maximum context length is ",        // OpenAI, vLLM, OpenRouter, Mistral
    "available context size (",          // llama.cpp
    "context length of only ",           // LM Studio
    "configured context size of ",       // ds4
    "maximum prompt length is ",         // xAI
    "maximum number of tokens allowed ", // Google
];

/// Returns the window that a refusal names, in llama.cpp's field or in the message.
pub fn refused_window(error: &Value, message: &str) -> Option<u32> {
    let field = error.get("n_ctx").and_then(Value::as_u64);
    let tokens = field.or_else(|| {
        let message = message.to_lowercase();
        let after = |phrase: &&str| number_at(message.split_once(*phrase)?.1);
        BEFORE_NUMBER.iter().find_map(after).or_else(|| anthropic_maximum(&message))
    })?;
    u32::try_from(tokens).ok().filter(|tokens| *tokens >= TOKENS_LEAST)
}

/// Parses `prompt is too long: 210000 tokens > 200000 maximum`.
fn anthropic_maximum(message: &str) -> Option<u64> {
    let (_, behind) = message.split_once(" tokens > ")?;
    behind.contains(" maximum").then(|| number_at(behind)).flatten()
}

fn number_at(text: &str) -> Option<u64> {
    let digits: String = text
        .trim_start_matches('(')
        .chars()
        .take_while(|sign| sign.is_ascii_digit() || *sign == ',')
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}
