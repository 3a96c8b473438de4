//! The trait of a provider: one request, one stream of deltas. Not the completion that is made of them (`provider.rs`).

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::completion::Delta;
use super::request::Request;
use super::window::LearnedWindow;

/// The deltas of one completion. Borrows the request, which retry and fallback may have to send again.
pub type DeltaStream<'a> = BoxStream<'a, Result<Delta, ProviderError>>;

/// A failed completion. The variants are sorted by who acts next.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Wait, try again, or try another: it cannot be reached, rate limit, overload, 5xx, no answer has begun.
    #[error("{reason}")]
    Busy { after: Option<Duration>, reason: String },
    /// Try again, or another; waiting does not help: the answer was cut off, or cannot be read.
    #[error("{0}")]
    Broken(String),
    /// Try another, or ask the person: the model fell silent in the middle of its answer.
    #[error("{0}")]
    Stalled(String),
    /// The agent shortens the prompt.
    #[error("the conversation is too long for the model")]
    TooLong,
    /// The operator acts: the key is missing or wrong, or may not do this.
    #[error("{0}")]
    Unauthorized(String),
    /// The operator acts: an unknown model, a bad request.
    #[error("{0}")]
    Refused(String),
    /// The operator acts: the model or its server refuses every request that has tools.
    #[error("{0}")]
    NoTools(String),
    /// The operator pays: the account at the provider has no credit.
    #[error("{0}")]
    NoCredit(String),
    /// The person waits, or the owner raises the budget. No model was called. The message is for the person.
    #[error("{0}")]
    OverBudget(String),
}

impl ProviderError {
    pub fn busy(reason: impl Into<String>) -> Self {
        Self::Busy { after: None, reason: reason.into() }
    }

    /// Creates the error of a stream that ended too early.
    pub(super) fn cut() -> Self {
        Self::Broken("the answer was cut off in the middle".to_owned())
    }
}

/// Default tokens of a prompt: 128,000, the smallest window of most models, without an answer of usual length.
const DEFAULT_WINDOW: u64 = 112_000;

#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Returns the names of the config section and of the model, as people see them: `main (qwen3:8b)`.
    fn name(&self) -> &str;

    /// Returns true if the model accepts pictures.
    fn sees(&self) -> bool {
        false
    }

    /// Returns false for fixed rules in place of a model, which understand nothing.
    fn is_model(&self) -> bool {
        true
    }

    /// Returns the maximum tokens of a prompt: the model's context without the tokens of an answer.
    fn context_window(&self) -> u64 {
        DEFAULT_WINDOW
    }

    /// Returns the context window that was learned from the server, if it differs from the assumed one.
    fn learned_window(&self) -> Option<LearnedWindow> {
        None
    }

    /// Asks the server for its context window, where that is not known and the server can tell. Bounded in time.
    async fn learn_window(&self) {}

    /// Begins a completion. The stream ends after [`Delta::End`] or an error.
    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError>;
}

/// A provider around another one, which changes its answers and nothing else.
#[async_trait]
pub trait ProviderLayer: Send + Sync + 'static {
    fn inner(&self) -> &dyn Provider;

    /// Begins a completion, as [`Provider::stream`] does.
    async fn answer<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError>;
}

#[async_trait]
impl<L: ProviderLayer> Provider for L {
    fn name(&self) -> &str {
        self.inner().name()
    }

    fn sees(&self) -> bool {
        self.inner().sees()
    }

    fn is_model(&self) -> bool {
        self.inner().is_model()
    }

    fn context_window(&self) -> u64 {
        self.inner().context_window()
    }

    fn learned_window(&self) -> Option<LearnedWindow> {
        self.inner().learned_window()
    }

    async fn learn_window(&self) {
        self.inner().learn_window().await;
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        self.answer(request).await
    }
}

/// Begins a completion. A failure to begin is the stream's first item.
pub(super) fn begin_stream<'a>(
    provider: &'a dyn Provider,
    request: &'a Request<'a>,
) -> DeltaStream<'a> {
    stream::once(provider.stream(request)).try_flatten().boxed()
}
