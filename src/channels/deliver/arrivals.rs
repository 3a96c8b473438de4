//! What deliveries of a channel tell about its platform: whether others arrive while one fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

use crate::types::message::DeliveryId;

/// No delivery has arrived for so long, and some failed: the platform was away.
const AWAY: chrono::Duration = chrono::Duration::minutes(1);

/// When deliveries of a channel arrived and failed: it tells the trouble of one of them from the platform's.
#[derive(Clone, Default)]
pub struct Arrivals(
    // A mutex because deliveries are different tasks; it guards two instants and a few counts.
    Arc<Mutex<Latest>>,
);

#[derive(Default)]
struct Latest {
    arrival: Option<DateTime<Utc>>,
    /// The first failure after it.
    failure: Option<DateTime<Utc>>,
    /// How often each delivery has failed while the platform was heard, since the start.
    while_heard: HashMap<DeliveryId, u32>,
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
        latest.arrival = Some(at);
        latest.failure.take().is_some_and(|failure| at - failure > AWAY)
    }

    /// Notes that a delivery has failed; says how often it has while the platform was heard.
    pub(super) fn note_failure_of(&self, delivery: DeliveryId, is_heard: bool) -> u32 {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_heard {
            *latest.while_heard.entry(delivery).or_default() += 1;
        }
        latest.while_heard.get(&delivery).copied().unwrap_or_default()
    }

    /// A delivery has arrived in part, or has ended.
    pub(super) fn forget(&self, delivery: DeliveryId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).while_heard.remove(&delivery);
    }
}
