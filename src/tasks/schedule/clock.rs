//! The clock, and waiting for a time. Clocks are set forwards and back, and machines sleep; a wait ends at its time by
//! the clock, or when somebody sets the clock.

use chrono::{DateTime, Duration, TimeZone as _, Utc};
use tokio::sync::watch;

/// The system's clock, or one that a test sets.
#[derive(Clone, Default)]
pub struct Clock(Option<watch::Receiver<DateTime<Utc>>>);

impl Clock {
    /// Creates a clock that shows the received times. Each change counts as setting the clock.
    pub fn with_hands(hands: watch::Receiver<DateTime<Utc>>) -> Self {
        Self(Some(hands))
    }

    pub fn now(&self) -> DateTime<Utc> {
        match &self.0 {
            None => Utc::now(),
            Some(hands) => *hands.borrow(),
        }
    }

    /// Waits until the clock shows `when`, or has been set since it showed `seen`. Without a time, waits until
    /// the clock is set.
    pub async fn reaches(&self, when: Option<DateTime<Utc>>, seen: DateTime<Utc>) {
        match &self.0 {
            None => system::reaches(when, seen).await,
            Some(hands) => {
                let mut hands = hands.clone();
                if *hands.borrow_and_update() != seen {
                    return;
                }
                if hands.changed().await.is_err() {
                    std::future::pending().await
                }
            }
        }
    }
}

/// Returns a time before any release of the program: a clock that shows an earlier one is wrong.
pub fn release() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 1, 1, 0, 0, 0).single().expect("it is a date")
}

/// Largest step back that counts as a correction of the clock.
const CORRECTION_MAX: Duration = Duration::hours(1);

/// Returns true if `now` can be right although the clock has already shown `newest`.
pub fn is_sane(now: DateTime<Utc>, newest: Option<DateTime<Utc>>) -> bool {
    now >= release() && newest.is_none_or(|newest| now >= newest - CORRECTION_MAX)
}

/// Largest trusted step ahead while nothing was stored. A clock further ahead may be wrong, and rows that are deleted by
/// it would be lost.
const AHEAD_MAX: Duration = Duration::days(1);

/// Returns the time from which the age of rows is counted for their deletion. None if the clock is wrong. `newest` is
/// the newest time in the store at the start, `up` the time since then: a clock far ahead is trusted day by day.
pub fn pruned_until(
    now: DateTime<Utc>,
    newest: Option<DateTime<Utc>>,
    up: Duration,
) -> Option<DateTime<Utc>> {
    let known = newest.map_or(now, |newest| newest + up + AHEAD_MAX);
    is_sane(now, newest).then(|| now.min(known))
}

/// Longest trusted gap between times in the store. A platform must confirm a longer one: no bot is off for so long, and
/// a wrong clock may have dated the newer rows.
const GAP_MAX: Duration = Duration::days(400);

/// Returns the newest trusted time in the store. `known` is the newest time that platforms have reported or that was
/// trusted before.
pub fn believed(
    newest: Option<DateTime<Utc>>,
    known: Option<DateTime<Utc>>,
) -> Option<DateTime<Utc>> {
    match (newest, known) {
        (Some(newest), Some(known)) if newest > known + GAP_MAX => Some(known),
        (newest, _) => newest,
    }
}

#[cfg(target_os = "linux")]
mod system {
    //! A kernel timer (timerfd), which follows the clock and reports when it is set. It costs no
    //! wake-up until then.

    use std::io;
    use std::os::fd::OwnedFd;

    use chrono::{DateTime, Utc};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A time that no clock shows, for a timer that only reports when the clock is set.
    const NEVER_S: i64 = 1 << 40;

    pub(super) async fn reaches(when: Option<DateTime<Utc>>, seen: DateTime<Utc>) {
        if let Err(error) = wait(when, seen).await {
            tracing::warn!(%error, "There is no timer, checking again in a minute");
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        }
    }

    async fn wait(when: Option<DateTime<Utc>>, seen: DateTime<Utc>) -> io::Result<()> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let (seconds, nanoseconds) =
            when.map_or((NEVER_S, 0), |when| (when.timestamp(), when.timestamp_subsec_nanos()));
        // Zero would disarm the timer.
        let at = Timespec { tv_sec: seconds.max(1), tv_nsec: i64::from(nanoseconds) };
        let never_again = Timespec { tv_sec: 0, tv_nsec: 0 };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &Itimerspec { it_interval: never_again, it_value: at })?;
        #[expect(
            deprecated,
            reason = "its descriptor is its own, and stays open as long as it does"
        )]
        let timer: AsyncFd<OwnedFd> = AsyncFd::with_interest(timer, Interest::READABLE)?;
        if Utc::now() < seen {
            // The clock was set back before the timer existed.
            return Ok(());
        }
        // The timer is readable at its time, and with an error when the clock is set.
        timer.readable().await?.retain_ready();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! On systems whose timers do not report a change of the clock, it is checked each minute.

    use chrono::{DateTime, Utc};

    const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

    pub(super) async fn reaches(when: Option<DateTime<Utc>>, _: DateTime<Utc>) {
        let until = when.map(|when| (when - Utc::now()).to_std().unwrap_or_default());
        tokio::time::sleep(until.unwrap_or(LOOK_EVERY).min(LOOK_EVERY)).await;
    }
}
