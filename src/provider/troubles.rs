//! The troubles of models: which one fails since when, and why, until it answers again. Not here: what becomes of a request
//! that failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::api::begin_stream;
use super::{Delta, DeltaStream, Provider, ProviderError, ProviderLayer, Request};

/// The failures of a model since its last answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTrouble {
    /// The time of the first.
    pub since: DateTime<Utc>,
    /// The reason of the last.
    pub reason: String,
}

/// The models that fail, by the names of their sections. Cheap to clone.
#[derive(Clone)]
pub struct ModelTroubles(watch::Sender<BTreeMap<String, ModelTrouble>>);

impl Default for ModelTroubles {
    fn default() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }
}

impl ModelTroubles {
    pub fn all(&self) -> BTreeMap<String, ModelTrouble> {
        self.0.borrow().clone()
    }

    /// Returns the provider of a section, whose failures are noted from now on.
    pub fn watch(&self, name: &str, inner: Arc<dyn Provider>) -> Arc<dyn Provider> {
        Arc::new(WatchedProvider { inner, name: name.to_owned(), troubles: self.clone() })
    }

    fn note_failure(&self, name: &str, reason: String) {
        self.0.send_modify(|all| {
            let since = all.get(name).map_or_else(Utc::now, |known| known.since);
            all.insert(name.to_owned(), ModelTrouble { since, reason });
        });
    }

    fn note_answer(&self, name: &str) {
        self.0.send_if_modified(|all| all.remove(name).is_some());
    }
}

/// A provider whose failures are noted.
struct WatchedProvider {
    inner: Arc<dyn Provider>,
    name: String,
    troubles: ModelTroubles,
}

impl WatchedProvider {
    fn note(&self, item: &Result<Delta, ProviderError>) {
        match item {
            Ok(Delta::End(_)) => self.troubles.note_answer(&self.name),
            // The request is at fault, or the person has used up a budget.
            Ok(_) | Err(ProviderError::TooLong | ProviderError::OverBudget(_)) => {}
            Err(error) => self.troubles.note_failure(&self.name, error.to_string()),
        }
    }
}

#[async_trait]
impl ProviderLayer for WatchedProvider {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    async fn answer<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        Ok(begin_stream(&*self.inner, request).inspect(move |item| self.note(item)).boxed())
    }
}
