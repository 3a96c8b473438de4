//! Moves waiting deliveries forward when the clock is set back. They wait by the clock, because they
//! outlive restarts, and would wait longer by the difference.

use std::time::Instant;

use chrono::{DateTime, Duration, Utc};

use super::DeliveryQueue;
use crate::bus::outbox;
use crate::store::Sync;

/// A smaller step back is a routine correction of the clock.
const SET_BACK_MIN: Duration = Duration::seconds(5);

/// A reading of the clock, and the monotonic time of the reading.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    wall: DateTime<Utc>,
    at: Instant,
}

impl ClockReading {
    pub fn begin(wall: DateTime<Utc>, at: Instant) -> Self {
        Self { wall, at }
    }

    /// Returns how far the clock has been set back since the reading. None if it runs as expected, or is
    /// ahead.
    pub fn set_back_by(&self, now: DateTime<Utc>, at: Instant) -> Option<Duration> {
        let passed = Duration::from_std(at - self.at).ok()?;
        let back = self.wall + passed - now;
        (back >= SET_BACK_MIN).then_some(back)
    }

    /// Reads the clock, and restarts pauses that began in the future: the clock was ahead then.
    pub(super) async fn at_start(queue: &DeliveryQueue) -> Self {
        let (now, at) = (Utc::now(), Instant::now());
        let name = queue.name.clone();
        let restart = move |store: &_| outbox::restart_pauses(store, &name, now);
        if let Err(error) = queue.bus.store.write("pauses", Sync::Later, restart).await {
            tracing::warn!(channel = %queue.name, %error, "Cannot restart the pauses of deliveries, they may wait too long");
        }
        Self::begin(now, at)
    }

    /// Moves waiting deliveries if the clock was set back. If that fails, the next call tries again.
    pub(super) async fn follow(&mut self, queue: &DeliveryQueue) {
        let (now, at) = (Utc::now(), Instant::now());
        if let Some(by) = self.set_back_by(now, at) {
            let name = queue.name.clone();
            let forward = move |store: &_| outbox::move_earlier(store, &name, by);
            if let Err(error) = queue.bus.store.write("clock set back", Sync::Later, forward).await
            {
                tracing::error!(channel = %queue.name, %error, "Cannot correct the times of deliveries after the clock was set back");
                return;
            }
        }
        *self = Self::begin(now, at);
    }
}
