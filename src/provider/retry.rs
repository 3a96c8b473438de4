//! A provider that tries again when the one inside it is busy or breaks off.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::api::begin_stream;
use super::{Attempts, Delta, DeltaStream, Provider, ProviderError, ProviderLayer, Request};

/// The number of attempts, and the pauses between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// Maximum number of attempts, including the first.
    pub attempts_max: u32,
    /// Maximum time for pauses, and for attempts without any output: a person waits for the answer.
    pub waiting_max: Duration,
    /// Maximum first pause. Each further one may be twice as long.
    pub pause: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            attempts_max: 4,
            waiting_max: Duration::from_secs(60),
            pause: Duration::from_secs(2),
        }
    }
}

/// A provider with retries. An answer that broke off is made again, after a [`Delta::Restart`].
pub struct Retry {
    inner: Arc<dyn Provider>,
    options: RetryOptions,
}

impl Retry {
    pub fn new(inner: Arc<dyn Provider>, options: RetryOptions) -> Self {
        Self { inner, options }
    }
}

#[async_trait]
impl ProviderLayer for Retry {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    async fn answer<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let attempts = RetryAttempts {
            retry: self,
            request,
            current: Some(begin_stream(&*self.inner, request)),
            began: Instant::now(),
            has_passed_on: false,
            failed: 0,
            waited: Duration::ZERO,
        };
        Ok(stream::try_unfold(attempts, |mut attempts| async move {
            Ok(attempts.next().await?.map(|delta| (delta, attempts)))
        })
        .boxed())
    }
}

struct RetryAttempts<'a> {
    retry: &'a Retry,
    request: &'a Request<'a>,
    /// None once the answer is whole.
    current: Option<DeltaStream<'a>>,
    began: Instant,
    /// True if deltas of the current attempt were passed on.
    has_passed_on: bool,
    failed: u32,
    waited: Duration,
}

impl RetryAttempts<'_> {
    async fn next(&mut self) -> Result<Option<Delta>, ProviderError> {
        loop {
            let Some(current) = &mut self.current else { return Ok(None) };
            match current.next().await.unwrap_or_else(|| Err(ProviderError::cut())) {
                Ok(delta) => {
                    self.has_passed_on = true;
                    if matches!(delta, Delta::End(_)) {
                        self.current = None;
                    }
                    return Ok(Some(delta));
                }
                Err(error @ (ProviderError::Busy { .. } | ProviderError::Broken(_))) => {
                    if self.begin_again(error).await? {
                        return Ok(Some(Delta::Restart));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits and begins the next attempt, or gives up at once. Returns true if deltas were passed on that have
    /// to be taken back.
    async fn begin_again(&mut self, error: ProviderError) -> Result<bool, ProviderError> {
        let options = &self.retry.options;
        let after = match error {
            ProviderError::Busy { .. } if self.request.attempts == Attempts::Once => {
                return Err(error);
            }
            ProviderError::Busy { after, .. } => after,
            _ => None,
        };
        self.failed += 1;
        if !self.has_passed_on {
            self.waited += self.began.elapsed();
        }
        let pause = after.unwrap_or_else(|| jittered(options.pause, self.failed));
        if self.failed >= options.attempts_max || self.waited + pause > options.waiting_max {
            return Err(error);
        }
        let provider = self.retry.inner.name();
        warn!(%provider, %error, ?pause, "A model call failed, will try again");
        // Closes the broken connection first.
        self.current = None;
        sleep(pause).await;
        self.waited += pause;
        self.current = Some(begin_stream(&*self.retry.inner, self.request));
        self.began = Instant::now();
        Ok(std::mem::take(&mut self.has_passed_on))
    }
}

/// Returns a random pause, of at most twice the time before, so that many clients that were refused at once
/// do not return at once.
fn jittered(pause: Duration, failed: u32) -> Duration {
    pause.saturating_mul(1 << (failed - 1).min(16)).mul_f64(fastrand::f64())
}
