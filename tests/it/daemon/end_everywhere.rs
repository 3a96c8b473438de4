//! One daemon on all platforms at once ends at once, whatever its links are doing.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::crash_everywhere::{Platforms, settled};
use crate::support::binary::{ProgramFixture, until};

/// It takes some milliseconds. A link that is waited for makes it longer each time; a busy machine, once.
const END_TIME_MAX: Duration = Duration::from_secs(2);
const ENDS_MAX: usize = 5;

#[tokio::test]
async fn waits_for_no_link_at_its_end() {
    let mut platforms = Platforms::start().await;
    let fixture = ProgramFixture::new(&platforms.config());
    // The moments are the test itself: while it connects, and when all is up.
    let connecting = [0, 20, 100, 500].map(Some);
    for wait in connecting.into_iter().chain([None, None]) {
        let mut ends: Vec<Duration> = Vec::new();
        while ends.last().is_none_or(|took| *took >= END_TIME_MAX) {
            assert!(ends.len() < ENDS_MAX, "{wait:?}: {ends:?}");
            ends.push(end_time(&fixture, &mut platforms, wait).await);
        }
    }
    assert_eq!(platforms.discord.gateway_faults(), Vec::<String>::new());
    assert_eq!(platforms.slack.offences(), Vec::<String>::new());
}

/// Begins a daemon, and ends it so many milliseconds after that, or when all is up. Returns the time of the end, for which
/// no part had to be cut off.
async fn end_time(
    fixture: &ProgramFixture,
    platforms: &mut Platforms,
    wait: Option<u64>,
) -> Duration {
    let daemon = fixture.daemon().await;
    match wait {
        Some(wait) => sleep(Duration::from_millis(wait)).await,
        None => {
            until("the links", async || all_up(fixture).await.then_some(())).await;
            platforms.say();
            settled(&fixture.home(), platforms.said).await;
        }
    }
    let asked = Instant::now();
    daemon.end_by_itself().await;
    asked.elapsed()
}

async fn all_up(fixture: &ProgramFixture) -> bool {
    let channels = fixture.status().await["channels"].clone();
    ["telegram", "discord", "slack"].iter().all(|name| channels[name]["up"] == true)
}
