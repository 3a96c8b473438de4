//! How long a delivery waits between two attempts, when later ones need not wait for it any more, and when it is
//! given up: only while others of its channel arrive. While none does, the platform is away, and all wait. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::bus::outbox::{Chunk, Delivery, DeliveryFailure, Failures};
use crate::channels::supervise::backoff;
use crate::types::message::Body;

/// How much longer each pause is after a sending whose outcome can be found out.
const ASKED_GROWTH: u32 = 2;

/// The longest of these pauses: an upload is not worth more traffic, and a person waits no longer once the
/// platform is back.
const ASKED_PAUSE_MAX: Duration = Duration::from_secs(120);

/// How much longer each pause is after a sending whose outcome nobody will ever know: each attempt may be one
/// more copy.
const DOUBT_GROWTH: u32 = 6;

/// The longest of these pauses.
const DOUBT_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Sendings of one chunk of which nobody knows whether they arrived, before it is given up while others arrive.
const DOUBTS_MAX: u32 = 3;

/// The same while nothing else arrives either: the next one waits until something does.
pub(super) const COPIES_MAX: u32 = 6;

/// Failures while the platform is heard otherwise, among them, after which it does not wait: the platform is not away.
pub(super) const HEARD_MIN: u32 = 3;

/// Uploads of one file that come to nothing while the platform is heard otherwise, before words take its place, also
/// while nothing else is delivered: about a quarter of an hour of pauses.
pub const UPLOADS_MAX: u32 = 12;

/// Attempts whose pauses the platform may choose; beyond, they grow whatever it says.
const PLATFORM_PAUSES_MAX: u32 = 8;

/// Fewer attempts than this mean that the clock has jumped, or that nobody was running meanwhile.
const ATTEMPTS_MIN: u32 = 5;

/// How often others must have arrived between two failures: a platform that comes back may still stumble.
const OTHERS_ARRIVED_MIN: u32 = 2;

/// A message that could not be delivered for so long is of no use any more.
const AGE_MAX: chrono::Duration = chrono::Duration::days(7);

/// Fewer attempts than this in [`AGE_MAX`] mean that the clock has jumped, or that nobody was running meanwhile.
const AGED_ATTEMPTS_MIN: u32 = 20;

/// What share of the time after which it is given up a delivery holds up later ones.
const ASIDE_SHARE: u32 = 5;

/// Later ones of the chat do not wait for a pause that is longer: those after a certain failure never are.
const HELD_UP_MAX: Duration = Duration::from_secs(60);

/// The pause before an attempt after one that has certainly failed; `asked` is what the platform wants.
pub fn pause_after_failure(attempts: u32, asked: Option<Duration>) -> Duration {
    let Some(asked) = asked else { return backoff(attempts) };
    attempts.checked_sub(PLATFORM_PAUSES_MAX).map_or(asked, |beyond| asked.max(backoff(beyond)))
}

/// The pause after an attempt that may have arrived, of which `doubts` are not to be found out. `least` is the
/// platform's.
pub fn pause_in_doubt(least: Duration, attempts: u32, doubts: u32) -> Duration {
    let grown = |growth: u32, times: u32, max: Duration| {
        least.saturating_mul(growth.saturating_pow(times)).min(max.max(least))
    };
    grown(ASKED_GROWTH, attempts, ASKED_PAUSE_MAX).max(grown(DOUBT_GROWTH, doubts, DOUBT_PAUSE_MAX))
}

/// Returns true if a delivery has been of no use for so long that it ends, whatever the platform does.
pub(super) fn is_too_old(delivery: &Delivery, now: DateTime<Utc>) -> bool {
    now - delivery.created > AGE_MAX && delivery.attempts >= AGED_ATTEMPTS_MIN
}

/// Returns true if nobody will ever know whether a chunk arrived, while it is known of others.
pub(super) fn is_in_doubt_for_ever(chunk: &Chunk, failures: Option<Failures>) -> bool {
    chunk.doubts + 1 >= DOUBTS_MAX && failures.is_some_and(|failures| failures.others_arrived > 0)
}

/// What follows from a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    TryLater(DeliveryFailure),
    GiveUp,
}

/// An attempt that has failed.
pub struct Attempt<'a> {
    pub delivery: &'a Delivery,
    pub chunk: &'a Chunk,
    pub at: DateTime<Utc>,
    pub pause: Duration,
    /// When a delivery of the channel arrived last.
    pub last_arrival: Option<DateTime<Utc>>,
}

impl Attempt<'_> {
    /// Judges the attempt. `give_up_after` is how long a delivery is tried while others arrive.
    pub fn judge(&self, give_up_after: Duration, reason: String) -> Verdict {
        let before = self.delivery.failures;
        let others_arrived =
            before.is_some_and(|failures| self.last_arrival.is_some_and(|at| at > failures.last));
        let times =
            before.map_or(0, |failures| failures.others_arrived) + u32::from(others_arrived);
        let time_since = |then: Option<DateTime<Utc>>| {
            then.map_or(Duration::ZERO, |then| (self.at - then).to_std().unwrap_or_default())
        };
        let failing_for = time_since(before.map(|failures| failures.since));
        // An outage before that does not count.
        let beside_others = time_since(before.and_then(|failures| failures.others_since));
        let attempts = self.delivery.attempts + 1;
        let is_given_up = beside_others >= give_up_after
            && attempts >= ATTEMPTS_MIN
            && times >= OTHERS_ARRIVED_MIN;
        if is_given_up {
            return Verdict::GiveUp;
        }
        let is_alone =
            times > 0 || self.pause > HELD_UP_MAX || matches!(self.chunk.body, Body::File(_));
        Verdict::TryLater(DeliveryFailure {
            at: self.at,
            next: self.at + self.pause,
            reason,
            others_arrived,
            steps_aside: is_alone && failing_for >= give_up_after / ASIDE_SHARE,
        })
    }
}
