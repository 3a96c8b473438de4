//! The webhooks whose last call was refused, so that a refusal is logged once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;

/// The webhooks whose last call was refused, each with the status: a refusal is logged once.
#[derive(Default)]
pub(super) struct RefusedCalls(
    // Locked only briefly, at the end of a call.
    Mutex<BTreeMap<String, StatusCode>>,
);

impl RefusedCalls {
    /// Returns true if the last call of this webhook had another outcome.
    pub(super) fn is_news(&self, hook: &str, status: Option<StatusCode>) -> bool {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match status {
            Some(status) => refused.insert(hook.to_owned(), status) != Some(status),
            None => refused.remove(hook).is_some(),
        }
    }
}
