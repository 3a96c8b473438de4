//! Limits of the gateway: requests in a minute, with a token bucket for each key, and long-lived connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::refusal::HttpRefusal;
use crate::types::message::SenderId;

const MINUTE: Duration = Duration::from_secs(60);

/// Maximum number of buckets. At more keys than people and hooks can have, old buckets are full again, and are
/// deleted.
const BUCKETS_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct RequestLimits(
    // Locked only briefly, by a request that is counted.
    Mutex<HashMap<String, Bucket>>,
);

struct Bucket {
    /// Requests that may still be made now.
    requests_left: f64,
    at: Instant,
}

impl RequestLimits {
    /// Counts a request. Returns false if there were more than `per_minute` with this key.
    pub(super) fn allows(&self, key: &str, per_minute: u32) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX {
            buckets.retain(|_, bucket| bucket.at.elapsed() < MINUTE);
        }
        let full = f64::from(per_minute);
        let bucket = buckets
            .entry(key.to_owned())
            .or_insert(Bucket { requests_left: full, at: Instant::now() });
        let refilled = bucket.at.elapsed().as_secs_f64() / MINUTE.as_secs_f64() * full;
        bucket.requests_left = (bucket.requests_left + refilled).min(full);
        bucket.at = Instant::now();
        let allows = bucket.requests_left >= 1.0;
        bucket.requests_left -= if allows { 1.0 } else { 0.0 };
        allows
    }
}

/// Counts long-lived connections: streams, and requests that wait for an answer. Some connections always stay
/// free for others.
pub(super) struct HeldConnections {
    all_max: usize,
    of_person_max: usize,
    // Locked only briefly, when one begins or ends.
    held: Mutex<HashMap<SenderId, usize>>,
}

impl HeldConnections {
    pub(super) fn new(connections_max: usize) -> Self {
        let all_max = (connections_max * 7 / 8).max(1);
        let of_person_max = (connections_max * 3 / 4).max(1);
        Self { all_max, of_person_max, held: Mutex::default() }
    }

    /// Counts a connection of a person while the guard lives. Returns an error if there are too many.
    pub(super) fn hold(self: &Arc<Self>, person: &SenderId) -> Result<HeldConnection, HttpRefusal> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = held.values().sum();
        let own = held.get(person).copied().unwrap_or_default();
        if all >= self.all_max || own >= self.of_person_max {
            return Err(HttpRefusal::too_many_streams());
        }
        held.insert(person.clone(), own + 1);
        Ok(HeldConnection { connections: Arc::clone(self), person: person.clone() })
    }
}

/// A guard for a long-lived connection.
pub(super) struct HeldConnection {
    connections: Arc<HeldConnections>,
    person: SenderId,
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        let mut held = self.connections.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.person) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.person);
            }
        }
    }
}
