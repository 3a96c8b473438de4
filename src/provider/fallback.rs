//! Several providers as one: when one cannot answer, the next does. It remembers nothing: the first is
//! always tried first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use tracing::warn;

use super::api::begin_stream;
use super::{Delta, DeltaStream, LearnedWindow, Provider, ProviderError, Request};
use crate::replies;

/// Providers in the order in which they are asked.
pub struct Fallback {
    providers: Vec<Arc<dyn Provider>>,
}

impl Fallback {
    /// Creates the chain.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(providers: Vec<Arc<dyn Provider>>) -> Self {
        assert!(!providers.is_empty(), "a fallback needs a provider");
        Self { providers }
    }
}

#[async_trait]
impl Provider for Fallback {
    /// Returns the name of the first, which is meant to answer.
    fn name(&self) -> &str {
        self.providers[0].name()
    }

    /// Returns true if any provider sees. The others leave the pictures out.
    fn sees(&self) -> bool {
        self.providers.iter().any(|provider| provider.sees())
    }

    /// Returns the window of the first: a fallback with a smaller one must not limit it.
    fn context_window(&self) -> u64 {
        self.providers[0].context_window()
    }

    fn is_model(&self) -> bool {
        self.providers[0].is_model()
    }

    fn learned_window(&self) -> Option<LearnedWindow> {
        self.providers[0].learned_window()
    }

    async fn learn_window(&self) {
        self.providers[0].learn_window().await;
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let attempt = FallbackAttempt {
            providers: &self.providers,
            request,
            current: Some(begin_stream(&*self.providers[0], request)),
            has_passed_on: false,
            failures: Vec::new(),
            ready: VecDeque::new(),
        };
        Ok(stream::try_unfold(attempt, |mut attempt| async move {
            Ok(attempt.next().await?.map(|delta| (delta, attempt)))
        })
        .boxed())
    }
}

struct FallbackAttempt<'a> {
    providers: &'a [Arc<dyn Provider>],
    request: &'a Request<'a>,
    /// The stream of the provider after those that failed; None once the answer is whole.
    current: Option<DeltaStream<'a>>,
    /// True if deltas of the current provider were passed on.
    has_passed_on: bool,
    failures: Vec<ProviderError>,
    ready: VecDeque<Delta>,
}

impl FallbackAttempt<'_> {
    async fn next(&mut self) -> Result<Option<Delta>, ProviderError> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Ok(Some(delta));
            }
            let Some(current) = &mut self.current else { return Ok(None) };
            match current.next().await.unwrap_or_else(|| Err(ProviderError::cut())) {
                Ok(delta) => self.pass_on(delta),
                // Another model may have a larger context window.
                Err(error) => self.ask_next(error)?,
            }
        }
    }

    fn pass_on(&mut self, delta: Delta) {
        if !std::mem::replace(&mut self.has_passed_on, true)
            && let Some(note) = self.note()
        {
            let name = self.providers[self.failures.len()].name();
            self.ready.extend([Delta::Note(note), Delta::AnsweredBy(name.to_owned())]);
        }
        if matches!(delta, Delta::End(_)) {
            self.current = None;
        }
        self.ready.push_back(delta);
    }

    fn note(&self) -> Option<String> {
        let failures = self.providers.iter().zip(&self.failures);
        let failed: Vec<_> = failures.map(|(it, error)| (it.name(), error.to_string())).collect();
        let name = self.providers[failed.len()].name();
        (!failed.is_empty()).then(|| replies::another_provider_answered(&failed, name))
    }

    fn ask_next(&mut self, error: ProviderError) -> Result<(), ProviderError> {
        let provider = self.providers[self.failures.len()].name();
        warn!(%provider, %error, "A provider cannot answer");
        self.failures.push(error);
        let Some(next) = self.providers.get(self.failures.len()) else {
            self.current = None;
            return Err(self.join_failures());
        };
        if std::mem::take(&mut self.has_passed_on) {
            self.ready.push_back(Delta::Restart);
        }
        self.current = Some(begin_stream(&**next, self.request));
        Ok(())
    }

    /// Returns all failures as one. If any provider may recover by itself, so may the chain, as soon as the
    /// first of those.
    fn join_failures(&mut self) -> ProviderError {
        let failures = std::mem::take(&mut self.failures);
        if failures.iter().any(|error| matches!(error, ProviderError::TooLong)) {
            // The only failure that the agent itself can resolve.
            return ProviderError::TooLong;
        }
        let named = self.providers.iter().zip(&failures);
        let named: Vec<_> = named.map(|(it, error)| format!("{}: {error}", it.name())).collect();
        let reason = named.join("; ");
        let busy = failures.iter().filter_map(|error| match error {
            ProviderError::Busy { after, .. } => Some(after.unwrap_or(Duration::ZERO)),
            ProviderError::Broken(_) | ProviderError::Stalled(_) => None,
            ProviderError::TooLong
            | ProviderError::Unauthorized(_)
            | ProviderError::Refused(_)
            | ProviderError::NoTools(_)
            | ProviderError::NoCredit(_)
            | ProviderError::OverBudget(_) => None,
        });
        let broke = |error: &ProviderError| {
            matches!(error, ProviderError::Broken(_) | ProviderError::Stalled(_))
        };
        match busy.min() {
            Some(after) => {
                ProviderError::Busy { after: Some(after).filter(|after| !after.is_zero()), reason }
            }
            None if failures.iter().any(broke) => ProviderError::Broken(reason),
            None if failures.iter().any(|error| matches!(error, ProviderError::NoTools(_))) => {
                ProviderError::NoTools(reason)
            }
            None => ProviderError::Refused(reason),
        }
    }
}
