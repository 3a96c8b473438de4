//! Tells by how much our clock and the platforms' differ: what a channel tells after it was heard for a while
//! without a gap has just been said, whatever the clocks show. By a clock that nobody sets and that goes on while
//! the machine sleeps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// After a longer silence, what comes may have waited at the platform. Each platform is heard once a minute.
const GAP_MAX: Duration = Duration::from_secs(3 * 60);

/// By then, what had waited has come: history is read at a call or two a minute where a platform allows no more.
const STEADY_MIN: Duration = Duration::from_secs(10 * 60);

/// When a channel was heard, in time since the machine was booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    since: Duration,
    last: Duration,
}

impl Heard {
    /// It is heard at a moment, after it was heard `before`.
    pub fn again(before: Option<Self>, at: Duration) -> Self {
        let steady = before.filter(|before| at.saturating_sub(before.last) <= GAP_MAX);
        Self { since: steady.map_or(at, |steady| steady.since), last: at }
    }

    /// Returns true if what is told now has just been said.
    pub fn is_steady(self) -> bool {
        self.last - self.since >= STEADY_MIN
    }
}

/// How much later than its platform says the last message was found that had certainly just been said: that is what
/// the clocks differ by. Of all channels: ours is one.
#[derive(Clone, Default)]
pub struct ClockLag(
    // A mutex because channels are different tasks; it guards one number.
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

/// The time since the machine was booted, its sleep included.
#[cfg(target_os = "linux")]
pub(super) fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}

/// The time since this was first asked; a sleep of the machine may be missing.
#[cfg(not(target_os = "linux"))]
pub(super) fn since_boot() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}
