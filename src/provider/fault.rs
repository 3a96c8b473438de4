//! Classifies errors of model APIs by who acts next. Pure. Knows the messages of both vendors and of compatible
//! servers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::ProviderError;
use super::window::refused_window;
use crate::secret::Secret;
use crate::short_text::{one_line, shortened};

/// Maximum length of a server's own message that people are shown, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// Codes and types that say that the prompt is too long.
const TOO_LONG_CODES: [&str; 5] = [
    "context_length_exceeded",   // OpenAI
    "request_too_large",         // Anthropic
    "exceed_context_size_error", // llama.cpp
    "context_exceeded",          // ds4
    "1261",                      // Z.ai
];

/// Parts of messages that say the same, in lower case. None is about `max_tokens` alone: that is a wrong
/// setting, which a shorter prompt does not correct.
const TOO_LONG_WORDS: [&str; 17] = [
    "prompt is too long",                       // Anthropic
    "exceed context limit",                     // Anthropic, prompt and answer together
    "prompt too long",                          // Ollama, Z.ai
    "exceeds the context length",               // Ollama
    "maximum context length",                   // OpenAI, vLLM, OpenRouter, Mistral
    "exceeds the context window",               // OpenAI
    "tokens must be reduced",                   // OpenAI, more than a minute's tokens at once
    "exceeds the available context size",       // llama.cpp
    "greater than the context length",          // LM Studio
    "configured context size",                  // ds4
    "maximum prompt length",                    // xAI
    "reduce the length of the messages",        // Groq
    "exceeds the maximum number of tokens",     // Google
    "exceeds the maximum allowed input length", // Poolside
    "context window exceeds limit",             // MiniMax
    "exceeded model token limit",               // Kimi
    "input is too long",                        // Bedrock
];

/// Parts of messages, in lower case, which say that the model or its server accepts no tools at all.
const NO_TOOLS_WORDS: [&str; 9] = [
    "does not support tools",                  // Ollama
    "tools param requires",                    // llama.cpp without --jinja, with status 500
    "unsupported param: tools",                // llama.cpp, older versions, with status 500
    "tool choice requires --enable-auto-tool", // vLLM
    "no endpoints found that support tool",    // OpenRouter, with status 404
    "tool calling` is not supported",          // Groq
    "tool calling is not supported",
    "does not support function calling", // DeepSeek
    "function calling is not enabled",   // Mistral
];

/// An error as the server reported it.
#[derive(Debug, Default)]
pub struct ApiFault {
    status: Option<u16>,
    after: Option<Duration>,
    /// The vendor's machine-readable type and code.
    codes: Vec<String>,
    message: String,
    /// The context window in the message, in tokens.
    window: Option<u32>,
}

/// The class of a fault, by who acts next.
#[derive(Clone, Copy)]
enum FaultClass {
    /// Another attempt may help.
    Busy,
    /// The key must be another one.
    Unauthorized,
    Refused,
}

impl ApiFault {
    /// Parses a response that is not a success. `after` is [`retry_after`].
    pub fn of_response(status: u16, after: Option<Duration>, body: &str) -> Self {
        let parsed = serde_json::from_str(body).map(|value| Self::of_event(&value));
        let parsed = parsed.unwrap_or_else(|_| Self {
            window: refused_window(&Value::Null, body),
            message: plain_text(body),
            ..Self::default()
        });
        Self { status: Some(status), after, ..parsed }
    }

    /// Parses `{"error": {..}}`, `{"error": ".."}`, `{"message": ".."}`, `{"detail": ".."}`, or a list of one of
    /// these. Messages that are not text (Mistral, and all that FastAPI checks) are quoted as they are.
    pub fn of_event(event: &Value) -> Self {
        let event = event.get(0).unwrap_or(event);
        let error = event.get("error").filter(|error| !error.is_null()).unwrap_or(event);
        let scalar = |key: &str| match error.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let text_or_json = |key: &str| match error.get(key) {
            Some(value @ (Value::Object(_) | Value::Array(_))) => Some(value.to_string()),
            _ => scalar(key),
        };
        let message = error.as_str().map(str::to_owned);
        let message = message
            .or_else(|| text_or_json("message"))
            .or_else(|| text_or_json("detail"))
            .unwrap_or_default();
        Self {
            status: scalar("code")
                .and_then(|code| code.parse().ok())
                .filter(|c| (400..600).contains(c)),
            after: None,
            codes: ["type", "code"].into_iter().filter_map(scalar).collect(),
            window: refused_window(error, &message),
            message,
        }
    }

    /// Returns the error by who acts next. `key` is removed from the server's message.
    pub fn classify(&self, key: Option<&Secret>) -> ProviderError {
        if self.is_too_long() {
            return ProviderError::TooLong;
        }
        // Groq's, with status 400; the next attempt may well be right.
        if self.has_code("tool_use_failed") {
            let summary = "the model wrote a tool call that its server could not read";
            return ProviderError::Broken(format!("{summary}{}", self.quoted(key)));
        }
        if self.is_about_tools() {
            let summary = "the model or its server accepts no tools";
            return ProviderError::NoTools(format!("{summary}{}", self.quoted(key)));
        }
        if self.is_without_credit() {
            let summary = "there is no credit left; check the account's billing";
            return ProviderError::NoCredit(format!("{summary}{}", self.quoted(key)));
        }
        let (class, summary) = match self.verdict() {
            (FaultClass::Unauthorized, _) if key.is_none() && self.status != Some(403) => {
                (FaultClass::Unauthorized, "it wants a key, and none is set")
            }
            verdict => verdict,
        };
        let reason = format!("{summary}{}", self.quoted(key));
        match class {
            FaultClass::Busy => ProviderError::Busy { after: self.after, reason },
            FaultClass::Unauthorized => ProviderError::Unauthorized(reason),
            FaultClass::Refused => ProviderError::Refused(reason),
        }
    }

    /// Returns the model's context window, if the server refused a prompt that is too long and named the window.
    pub fn window(&self) -> Option<u32> {
        self.window.filter(|_| self.is_too_long())
    }

    fn is_too_long(&self) -> bool {
        // Not 401 to 404: those quote the request, or an HTML page.
        let message = self.message.to_lowercase();
        match self.status {
            Some(413) => true,
            None | Some(400 | 422 | 429 | 500) => {
                TOO_LONG_CODES.iter().any(|code| self.has_code(code))
                    || TOO_LONG_WORDS.iter().any(|words| message.contains(words))
            }
            Some(_) => false,
        }
    }

    fn is_about_tools(&self) -> bool {
        let message = self.message.to_lowercase();
        matches!(self.status, None | Some(400 | 404 | 422 | 500 | 501))
            && NO_TOOLS_WORDS.iter().any(|words| message.contains(words))
    }

    fn is_without_credit(&self) -> bool {
        const CODES: [&str; 3] =
            ["insufficient_quota", "billing_error", "billing_hard_limit_reached"];
        self.status == Some(402)
            || CODES.iter().any(|code| self.has_code(code))
            || self.message.to_lowercase().contains("credit balance")
    }

    fn has_code(&self, code: &str) -> bool {
        self.codes.iter().any(|own| own == code)
    }

    /// Returns the class of the fault, and a short sentence with the fault and a hint what to check.
    fn verdict(&self) -> (FaultClass, &'static str) {
        const REFUSED: FaultClass = FaultClass::Refused;
        const UNAUTHORIZED: FaultClass = FaultClass::Unauthorized;
        const BUSY: FaultClass = FaultClass::Busy;
        let codes = |codes: &[&str]| codes.iter().any(|code| self.has_code(code));

        match self.status {
            Some(401) => (UNAUTHORIZED, "the key was not accepted; copy it again"),
            Some(403) => (UNAUTHORIZED, "access was denied; check the key and what it may use"),
            Some(404 | 405) => (REFUSED, "nothing there has this name; check model and base_url"),
            Some(408) => (BUSY, "the server timed out"),
            Some(409 | 425) => (BUSY, "the server could not take the request now"),
            Some(429) => (BUSY, "the rate limit is reached"),
            Some(503 | 529) => (BUSY, "the server is overloaded"),
            Some(500..) => (BUSY, "the server failed"),
            Some(400..) => (REFUSED, "the request was not accepted; check model and max_tokens"),
            Some(300..) => (REFUSED, "the server redirects to another address; check base_url"),
            Some(_) => (REFUSED, "the server is not a model API; check base_url"),
            None if codes(&["authentication_error", "invalid_api_key"]) => {
                (UNAUTHORIZED, "the key was not accepted; copy it again")
            }
            None if codes(&["permission_error"]) => {
                (UNAUTHORIZED, "access was denied; check the key and what it may use")
            }
            None if codes(&["not_found_error", "model_not_found"]) => {
                (REFUSED, "nothing there has this name; check model and base_url")
            }
            None if codes(&["invalid_request_error"]) => {
                (REFUSED, "the request was not accepted; check model and max_tokens")
            }
            None if codes(&["overloaded_error"]) => (BUSY, "the server is overloaded"),
            None if codes(&["rate_limit_error", "rate_limit_exceeded"]) => {
                (BUSY, "the rate limit is reached")
            }
            None => (BUSY, "the server failed"),
        }
    }

    /// Returns ` (401: the server's message)`, or the known part of that.
    fn quoted(&self, key: Option<&Secret>) -> String {
        let mut message = one_line(&self.message);
        if let Some(key) = key.map(|key| key.reveal().trim()).filter(|key| !key.is_empty()) {
            message = message.replace(key, "[key]");
        }
        let message = shortened(&message, MESSAGE_CHARS_MAX);
        match (self.status, message.is_empty()) {
            (Some(status), false) => format!(" ({status}: {message})"),
            (Some(status), true) => format!(" ({status})"),
            (None, false) => format!(" ({message})"),
            (None, true) => String::new(),
        }
    }
}

/// Returns the message in a body that is not JSON. An HTML page has none.
fn plain_text(body: &str) -> String {
    if body.trim_start().starts_with('<') { String::new() } else { body.to_owned() }
}

/// Returns the time that the server asks us to wait: `retry-after-ms`, or `Retry-After` in seconds or as a
/// date (RFC 9110, 10.2.3).
pub fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    if let Some(ms) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    if let Some(seconds) = number(RETRY_AFTER.as_str()) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = DateTime::parse_from_rfc2822(text(RETRY_AFTER.as_str())?).ok()?;
    Some((date.to_utc() - now).to_std().unwrap_or_default())
}
