//! Rate limits of the gateway: a bucket of tokens for each key.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// Buckets at a time. More keys than people and hooks can have mean that old ones are full again.
const BUCKETS_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct RequestLimits(
    // Locked only briefly, by a request that is counted.
    Mutex<HashMap<String, Bucket>>,
);

struct Bucket {
    /// Requests that may still be made now.
    left: f64,
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
        let bucket =
            buckets.entry(key.to_owned()).or_insert(Bucket { left: full, at: Instant::now() });
        let refilled = bucket.at.elapsed().as_secs_f64() / MINUTE.as_secs_f64() * full;
        bucket.left = (bucket.left + refilled).min(full);
        bucket.at = Instant::now();
        let allows = bucket.left >= 1.0;
        bucket.left -= if allows { 1.0 } else { 0.0 };
        allows
    }
}
