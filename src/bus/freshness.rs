//! Measures the difference between our clock and the platforms'. If a channel was received without a gap
//! for a while, its next message was just sent, whatever the clocks show. Gaps are measured by the boot
//! clock, which nobody sets and which continues while the machine sleeps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest silence that is no gap. After a longer one, a message may have waited at the platform. Each
/// platform sends something once a minute.
const GAP_MAX: Duration = Duration::from_secs(3 * 60);

/// Minimum time without a gap after which all waiting messages have arrived: some platforms allow only
/// one or two calls a minute for reading history.
const STEADY_MIN: Duration = Duration::from_secs(10 * 60);

/// The period in which a channel was received without a gap, in time since the machine was booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPeriod {
    since: Duration,
    last: Duration,
}

impl ReceivedPeriod {
    /// Extends the period `before` to the moment `at`, or begins a new one after a gap.
    pub fn extend(before: Option<Self>, at: Duration) -> Self {
        let unbroken = before.filter(|before| at.saturating_sub(before.last) <= GAP_MAX);
        Self { since: unbroken.map_or(at, |unbroken| unbroken.since), last: at }
    }

    /// Returns true if a message that arrives now was just sent.
    pub fn is_steady(self) -> bool {
        self.last - self.since >= STEADY_MIN
    }
}

/// The difference of the clocks: our clock minus the platform's, for the last message that was certainly
/// just sent. There is one value for all channels, because we have one clock.
#[derive(Clone, Default)]
pub struct ClockLag(
    // A mutex, because channels are different tasks. It guards one number.
    Arc<Mutex<Option<chrono::Duration>>>,
);

impl ClockLag {
    pub fn note(&self, lag: chrono::Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(lag);
    }

    pub fn get(&self) -> Option<chrono::Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time since the machine was booted, including sleep.
#[cfg(target_os = "linux")]
pub fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}

/// Returns the time since the first call, which may not include sleep of the machine.
#[cfg(not(target_os = "linux"))]
pub fn since_boot() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}
