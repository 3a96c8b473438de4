//! How long a delivery waits for its next attempt, and when it is given up.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use peacrab::bus::outbox::{Chunk, Delivery, Failures};
use peacrab::channels::deliver::retry::{
    FailedAttempt, FailureVerdict, ambiguity_pause, pause_after_failure,
};
use peacrab::types::message::{Address, Body, DeliveryId, Outbound};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pauses_grow_by_attempts_whatever_the_reason() {
    let pauses = [0, 1, 2, 3, 4, 9].map(|n| ambiguity_pause(10 * SECOND, n, 0).as_secs());
    assert_eq!(pauses, [10, 20, 40, 80, 120, 120]);
    let pauses = [0, 1, 2, 9].map(|n| ambiguity_pause(10 * SECOND, n, n).as_secs());
    assert_eq!(pauses, [10, 60, 360, 3600]);
    assert_eq!(pause_after_failure(7, Some(SECOND)), SECOND);
    assert!(pause_after_failure(20, Some(SECOND)) >= 15 * SECOND);
    assert_eq!(pause_after_failure(20, Some(600 * SECOND)), 600 * SECOND);
}

/// Whether a delivery is given up that has failed for an hour, and beside others for so long.
fn is_given_up(beside_others: TimeDelta) -> bool {
    let at: DateTime<Utc> = Utc::now();
    let body = Body::Text("hello".to_owned());
    let message = Outbound {
        id: DeliveryId(1),
        chunk_index: 0,
        to: Address { channel: "home".into(), chat: "1".into(), thread: None },
        reply_to: None,
        overtakes: false,
        replaces: None,
        body: body.clone(),
    };
    let failures = Failures {
        since: at - TimeDelta::hours(1),
        last: at - TimeDelta::seconds(20),
        others_arrived: 2,
        others_since: Some(at - beside_others),
    };
    let chunk = Chunk { seq: 0, body, sending_since: None, ambiguous_sends: 0 };
    let delivery = Delivery {
        message,
        created: failures.since,
        attempts: 20,
        failures: Some(failures),
        chunks: vec![chunk.clone()],
    };
    let last_arrival = Some(at - TimeDelta::seconds(10));
    let attempt =
        FailedAttempt { delivery: &delivery, chunk: &chunk, at, pause: SECOND, last_arrival };
    attempt.judge(300 * SECOND, "busy".to_owned()) == FailureVerdict::GiveUp
}

#[test]
fn an_outage_does_not_count_as_failing_beside_others() {
    assert!(!is_given_up(TimeDelta::seconds(30)));
    assert!(is_given_up(TimeDelta::seconds(301)));
}
