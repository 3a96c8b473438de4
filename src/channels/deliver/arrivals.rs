//! What deliveries of a channel tell about its platform: whether others arrive while one fails.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

/// No delivery has arrived for so long, and some failed: the platform was away.
const AWAY: chrono::Duration = chrono::Duration::minutes(1);

/// When deliveries of a channel arrived and failed: it tells the trouble of one of them from the platform's.
#[derive(Clone, Default)]
pub struct Arrivals(
    // A mutex because deliveries are different tasks; it guards two instants.
    Arc<Mutex<Latest>>,
);

#[derive(Clone, Copy, Default)]
struct Latest {
    arrival: Option<DateTime<Utc>>,
    /// The first failure after it.
    failure: Option<DateTime<Utc>>,
}

impl Arrivals {
    /// When a delivery arrived last, since the start.
    pub(super) fn last(&self) -> Option<DateTime<Utc>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).arrival
    }

    pub(super) fn note_failure(&self, at: DateTime<Utc>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failure.get_or_insert(at);
    }

    /// Returns true if the platform was away before.
    pub(super) fn note_arrival(&self, at: DateTime<Utc>) -> bool {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *latest, Latest { arrival: Some(at), failure: None });
        before.failure.is_some_and(|failure| at - failure > AWAY)
    }
}
