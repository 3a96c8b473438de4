//! How long a delivery waits for its next attempt.

use std::time::Duration;

use peacrab::channels::deliver::patience::{pause_after_failure, pause_in_doubt};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pauses_grow_by_attempts_whatever_the_reason() {
    let pauses = [0, 1, 2, 3, 4, 9].map(|n| pause_in_doubt(10 * SECOND, n, 0).as_secs());
    assert_eq!(pauses, [10, 20, 40, 80, 120, 120]);
    let pauses = [0, 1, 2, 9].map(|n| pause_in_doubt(10 * SECOND, n, n).as_secs());
    assert_eq!(pauses, [10, 60, 360, 3600]);
    assert_eq!(pause_after_failure(7, Some(SECOND)), SECOND);
    assert!(pause_after_failure(20, Some(SECOND)) >= 15 * SECOND);
    assert_eq!(pause_after_failure(20, Some(600 * SECOND)), 600 * SECOND);
}
