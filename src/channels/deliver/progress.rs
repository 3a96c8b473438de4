//! Shows if the deliveries of a channel make progress: its task goes on, and each attempt ends in time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::bus::Notifier;
use crate::types::message::DeliveryId;

/// The progress of a channel's deliveries. Cheap to clone.
#[derive(Clone, Default)]
pub struct DeliveryProgress {
    /// Wakes each time the task has looked for due deliveries.
    pub rounds: Notifier,
    // A mutex, because deliveries are different tasks. It guards an instant for each of the few that run.
    attempts: Arc<Mutex<HashMap<DeliveryId, Instant>>>,
}

/// The guard of a running delivery, which counts as ended when this is dropped.
pub(super) struct RunningDelivery {
    id: DeliveryId,
    progress: DeliveryProgress,
}

impl DeliveryProgress {
    /// Returns how long the oldest attempt to send a part of a delivery has been running. None if none runs.
    pub fn oldest_attempt(&self) -> Option<Duration> {
        self.lock().values().map(Instant::elapsed).max()
    }

    pub(super) fn begin(&self, id: DeliveryId) -> RunningDelivery {
        let running = RunningDelivery { id, progress: self.clone() };
        running.next_part();
        running
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DeliveryId, Instant>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningDelivery {
    /// Notes that the next part is about to be sent.
    pub(super) fn next_part(&self) {
        self.progress.lock().insert(self.id, Instant::now());
    }
}

impl Drop for RunningDelivery {
    fn drop(&mut self) {
        self.progress.lock().remove(&self.id);
    }
}
