//! Tracks when deliveries of a channel arrive and fail. This shows if the platform is reachable while one of
//! them fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

use crate::types::message::DeliveryId;

/// If no delivery has arrived for this long, and some failed, the platform was away.
const AWAY: chrono::Duration = chrono::Duration::minutes(1);

/// Times at which deliveries of a channel arrived and failed. They distinguish trouble of one delivery
/// from trouble of the platform.
#[derive(Clone, Default)]
pub struct Arrivals(
    // A mutex, because deliveries are different tasks. It guards two instants and a few counts.
    Arc<Mutex<Latest>>,
);

#[derive(Default)]
struct Latest {
    arrival: Option<DateTime<Utc>>,
    /// The first failure after it.
    failure: Option<DateTime<Utc>>,
    /// Number of failures of each delivery while the platform was reachable, since the start.
    reachable_failures: HashMap<DeliveryId, u32>,
}

impl Arrivals {
    /// Returns the time of the last arrival since the start.
    pub(super) fn last(&self) -> Option<DateTime<Utc>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).arrival
    }

    pub(super) fn note_failure(&self, at: DateTime<Utc>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failure.get_or_insert(at);
    }

    /// Records an arrival. Returns true if the platform was away before.
    pub(super) fn note_arrival(&self, at: DateTime<Utc>) -> bool {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.arrival = Some(at);
        latest.failure.take().is_some_and(|failure| at - failure > AWAY)
    }

    /// Records a failure of a delivery. Returns how often it has failed while the platform was reachable.
    pub(super) fn note_failure_of(&self, delivery: DeliveryId, is_reachable: bool) -> u32 {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_reachable {
            *latest.reachable_failures.entry(delivery).or_default() += 1;
        }
        latest.reachable_failures.get(&delivery).copied().unwrap_or_default()
    }

    /// Forgets a delivery that has arrived in part, or has ended.
    pub(super) fn forget(&self, delivery: DeliveryId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reachable_failures.remove(&delivery);
    }
}
