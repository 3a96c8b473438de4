//! The settings of a provider, and the timeouts that follow from them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::prices::Price;
use crate::http;
use crate::secret::Secret;
use crate::types::words::words;

/// Answers of the owner's own server have at most a quarter of its context, within these bounds in tokens.
const OWN_ANSWER_PART: u32 = 4;
const OWN_ANSWER_MIN: u32 = 1_024;
const OWN_ANSWER_MAX: u32 = 8_192;

/// Time to the first byte of a local server: an 8B model on a small board reads some thousand tokens for that long.
const LOCAL_BEGIN: Duration = Duration::from_secs(15 * 60);

/// Time between bytes of a local server: a slow model writes a call for that long, and its server sends it whole.
const LOCAL_STALL: Duration = Duration::from_secs(300);

/// Time of a whole local answer: a long one at two tokens a second, and the prompt before it.
const LOCAL_WHOLE: Duration = Duration::from_secs(90 * 60);

/// Time to the first byte of a vendor's server. After that, another provider should be asked.
const REMOTE_BEGIN: Duration = Duration::from_secs(90);

/// One `[providers.NAME]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub kind: ProviderKind,
    pub model: String,
    /// None if the endpoint needs none.
    pub api_key: Option<Secret>,
    /// Without a slash at the end; the vendor's own by default.
    pub base_url: String,
    /// Maximum length of an answer, in tokens. None leaves it to the server, if the API allows that.
    pub tokens_max: Option<u32>,
    /// The context window in tokens: prompt and answer together.
    pub context: u32,
    /// True if the config sets the context window. Otherwise it is assumed, and the server is asked.
    pub context_is_set: bool,
    pub tools: Tools,
    pub structured: Structured,
    /// True if the model accepts pictures.
    pub images: bool,
    pub timeouts: ProviderTimeouts,
    /// The price of its tokens. None: the price table decides.
    pub price: Option<Price>,
}

/// Timeouts of a provider, where its section sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderTimeouts {
    /// From the request to the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Between two bytes.
    pub stall: Option<Duration>,
}

/// Timeouts of a model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpTimeouts {
    pub connect: Duration,
    /// From the request to the answer's first byte: a small machine reads a long prompt for minutes.
    pub begin: Duration,
    /// Between two bytes; servers that think for long send pings or comments meanwhile.
    pub stall: Duration,
    /// From the request to the answer's last byte.
    pub whole: Duration,
}

impl Config {
    /// Returns the maximum length of an answer, in tokens. The owner's own server always has one.
    pub fn answer_tokens_max(&self) -> Option<u32> {
        let is_own = Url::parse(&self.base_url).is_ok_and(|url| http::is_local(&url));
        let own = (self.context / OWN_ANSWER_PART).clamp(OWN_ANSWER_MIN, OWN_ANSWER_MAX);
        self.tokens_max.or(is_own.then_some(own))
    }
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            begin: REMOTE_BEGIN,
            stall: Duration::from_secs(60),
            whole: Duration::from_secs(30 * 60),
        }
    }
}

impl HttpTimeouts {
    /// Returns the limits for the server of `base_url`. A server on this machine or network is mostly slow: it reads a
    /// long prompt for minutes, and may be silent while it writes a call.
    pub fn of(base_url: &str) -> Self {
        let limits = Self::default();
        match Url::parse(base_url) {
            Ok(url) if http::is_local(&url) => {
                Self { begin: LOCAL_BEGIN, stall: LOCAL_STALL, whole: LOCAL_WHOLE, ..limits }
            }
            _ => limits,
        }
    }

    /// Returns the limits of a config section, which may set some of them.
    pub fn for_provider(config: &Config) -> Self {
        let limits = Self::of(&config.base_url);
        let begin = config.timeouts.first_byte.unwrap_or(limits.begin);
        let stall = config.timeouts.stall.unwrap_or(limits.stall);
        Self { begin, stall, whole: limits.whole.max(begin + stall), ..limits }
    }
}

/// The way in which a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tools {
    /// As its API has it.
    #[default]
    Native,
    /// In its text, for models and servers that know nothing of tools.
    Text,
}

/// The use of a schema for answers that tell on which facts they rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Structured {
    /// Where the vendor and the model are known to take one.
    #[default]
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    Anthropic,
    /// Every OpenAI-compatible endpoint (chat completions).
    OpenAi,
    /// No model: rules that lead through the machine.
    Rehearsal,
}

words!(ProviderKind { Anthropic = "anthropic", OpenAi = "openai", Rehearsal = "rehearsal" });
