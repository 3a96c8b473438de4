//! One daemon on all platforms at once ends at once, whatever its links are doing.

use std::fs;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::crash_everywhere::{Platforms, settled};
use crate::support::binary::{ProgramFixture, until};

/// It takes some milliseconds; the machine may be busy with other tests.
const END_TIME_MAX: Duration = Duration::from_secs(2);

#[tokio::test]
async fn waits_for_no_link_at_its_end() {
    let mut platforms = Platforms::start().await;
    let fixture = ProgramFixture::new(&platforms.config());
    // The moments are the test itself: while it connects, and when all is up.
    let connecting = [0, 20, 100, 500].map(Some);
    for wait in connecting.into_iter().chain([None, None]) {
        let daemon = fixture.daemon().await;
        match wait {
            Some(wait) => sleep(Duration::from_millis(wait)).await,
            None => {
                until("the links", async || all_up(&fixture).await.then_some(())).await;
                platforms.say();
                settled(&fixture.home(), platforms.said).await;
            }
        }
        let asked = Instant::now();
        assert!(daemon.terminate().await.success());
        let (took, log) =
            (asked.elapsed(), fs::read_to_string(fixture.folder().join("log")).unwrap());
        assert!(took < END_TIME_MAX, "{wait:?}: {took:?}\n{log}");
        assert!(log.contains("Stopped") && !log.contains("did not end in time"), "{wait:?}\n{log}");
    }
    assert_eq!(platforms.discord.gateway_faults(), Vec::<String>::new());
    assert_eq!(platforms.slack.offences(), Vec::<String>::new());
}

async fn all_up(fixture: &ProgramFixture) -> bool {
    let channels = fixture.status().await["channels"].clone();
    ["telegram", "discord", "slack"].iter().all(|name| channels[name]["up"] == true)
}
