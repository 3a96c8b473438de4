//! Decides the pause between two attempts of a delivery, when later deliveries stop waiting for it, and
//! when it is given up. A delivery is given up only while others of its channel arrive: if none does, the
//! platform is away, and all wait. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::bus::outbox::{Chunk, Delivery, DeliveryFailure, Failures};
use crate::channels::supervise::{AFTER_MAX, backoff};
use crate::types::message::Body;

/// Growth of the pauses after an ambiguous send whose outcome can be found out.
const RESOLVABLE_GROWTH: u32 = 2;

/// Maximum of these pauses. A shorter one would repeat uploads too often; a longer one would keep people
/// waiting after the platform is back.
const RESOLVABLE_PAUSE_MAX: Duration = Duration::from_secs(120);

/// Growth of the pauses after an ambiguous send whose outcome stays unknown: each attempt may be
/// one more copy.
const AMBIGUITY_GROWTH: u32 = 6;

/// Maximum of these pauses.
const AMBIGUITY_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Ambiguous sends of one chunk before it is given up while others arrive.
const AMBIGUOUS_SENDS_MAX: u32 = 3;

/// Ambiguous sends of one chunk while nothing else arrives. The next send waits until something does.
pub(super) const COPIES_MAX: u32 = 6;

/// Failures while the platform is otherwise reachable, after which a chunk with that many sends is given
/// up at once: the platform is not away.
pub(super) const REACHABLE_FAILURES_MIN: u32 = 3;

/// Failed uploads of one file while the platform is otherwise reachable, before text replaces it, also
/// while nothing else is delivered: about a quarter of an hour of pauses.
pub const UPLOADS_MAX: u32 = 12;

/// Attempts whose pauses the platform may choose. After that the pauses grow in any case.
const PLATFORM_PAUSES_MAX: u32 = 8;

/// Attempts before a delivery is given up. With fewer, the clock has jumped, or no daemon was running.
const ATTEMPTS_MIN: u32 = 5;

/// Gaps between two failures in which others must have arrived: a platform that comes back may still fail
/// now and then.
const OTHERS_ARRIVED_MIN: u32 = 2;

/// Age from which a message that could not be delivered is useless.
const AGE_MAX: chrono::Duration = chrono::Duration::days(7);

/// Attempts in [`AGE_MAX`] before a delivery ends. With fewer, the clock has jumped, or no daemon was
/// running.
const AGED_ATTEMPTS_MIN: u32 = 20;

/// Fraction (1/n) of its time limit for which a failing delivery delays later ones.
const DELAY_SHARE: u32 = 5;

/// Longest pause for which later deliveries of the chat wait. Pauses after a certain failure are never
/// longer.
const DELAYING_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Minimum wait that a platform can demand.
const AFTER_MIN: Duration = Duration::from_millis(5);

/// Returns the wait that a platform demands, within bounds.
pub(super) fn bounded(after: Duration) -> Duration {
    after.clamp(AFTER_MIN, AFTER_MAX)
}

/// Returns the pause after an attempt that has certainly failed. `demanded` is the pause that the
/// platform demands.
pub fn pause_after_failure(attempts: u32, demanded: Option<Duration>) -> Duration {
    let Some(demanded) = demanded else { return backoff(attempts) };
    attempts
        .checked_sub(PLATFORM_PAUSES_MAX)
        .map_or(demanded, |beyond| demanded.max(backoff(beyond)))
}

/// Returns the pause after an ambiguous attempt. `ambiguous_sends` earlier ones can never be resolved. `least` is
/// the platform's minimum.
pub fn ambiguity_pause(least: Duration, attempts: u32, ambiguous_sends: u32) -> Duration {
    let grown = |growth: u32, times: u32, max: Duration| {
        least.saturating_mul(growth.saturating_pow(times)).min(max.max(least))
    };
    grown(RESOLVABLE_GROWTH, attempts, RESOLVABLE_PAUSE_MAX).max(grown(
        AMBIGUITY_GROWTH,
        ambiguous_sends,
        AMBIGUITY_PAUSE_MAX,
    ))
}

/// Returns true if a delivery is too old to be of use, so that it ends in any case.
pub(super) fn is_too_old(delivery: &Delivery, now: DateTime<Utc>) -> bool {
    now - delivery.created > AGE_MAX && delivery.attempts >= AGED_ATTEMPTS_MIN
}

/// Returns true if the outcome of a chunk will never be known, while other deliveries are known to
/// arrive.
pub(super) fn is_ambiguous_for_ever(chunk: &Chunk, failures: Option<Failures>) -> bool {
    chunk.ambiguous_sends + 1 >= AMBIGUOUS_SENDS_MAX
        && failures.is_some_and(|failures| failures.others_arrived > 0)
}

/// The consequence of a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureVerdict {
    TryLater(DeliveryFailure),
    GiveUp,
}

/// A failed attempt.
pub struct FailedAttempt<'a> {
    pub delivery: &'a Delivery,
    pub chunk: &'a Chunk,
    pub at: DateTime<Utc>,
    pub pause: Duration,
    /// Time at which a delivery of the channel last arrived.
    pub last_arrival: Option<DateTime<Utc>>,
}

impl FailedAttempt<'_> {
    /// Decides about the delivery. `give_up_after` is its time limit while others arrive.
    pub fn judge(&self, give_up_after: Duration, reason: String) -> FailureVerdict {
        let before = self.delivery.failures;
        let others_arrived =
            before.is_some_and(|failures| self.last_arrival.is_some_and(|at| at > failures.last));
        let others_count =
            before.map_or(0, |failures| failures.others_arrived) + u32::from(others_arrived);
        let time_since = |then: Option<DateTime<Utc>>| {
            then.map_or(Duration::ZERO, |then| (self.at - then).to_std().unwrap_or_default())
        };
        let failing_for = time_since(before.map(|failures| failures.since));
        // An outage before that does not count.
        let others_arriving_for = time_since(before.and_then(|failures| failures.others_since));
        let attempts = self.delivery.attempts + 1;
        let is_given_up = others_arriving_for >= give_up_after
            && attempts >= ATTEMPTS_MIN
            && others_count >= OTHERS_ARRIVED_MIN;
        if is_given_up {
            return FailureVerdict::GiveUp;
        }
        let may_be_passed = others_count > 0
            || self.pause > DELAYING_PAUSE_MAX
            || matches!(self.chunk.body, Body::File(_));
        FailureVerdict::TryLater(DeliveryFailure {
            at: self.at,
            next: self.at + self.pause,
            reason,
            others_arrived,
            lets_others_pass: may_be_passed && failing_for >= give_up_after / DELAY_SHARE,
        })
    }
}
