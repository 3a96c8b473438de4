//! Keeping links alive: how often a platform is tried that cannot be reached, and what ends a pause.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use peacrab::bus::Publisher;
use peacrab::channels::network::{CHANGE_PAUSE, Pause, pause};
use peacrab::channels::{
    Channel, ChannelError, Drafts, Markup, PlatformLimits, SendLookup, Sent, Unit, supervise,
};
use peacrab::types::message::{Address, Hint, Outbound};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::adapter_fixture::AdapterFixture;

/// More than any test begins.
const LINKS_MAX: usize = 1000;

/// A platform whose links all end at once, in the same way.
struct ShortLived {
    /// What it says when a link ends; up until then.
    ends: fn() -> Result<(), ChannelError>,
    begun: mpsc::Sender<Instant>,
}

#[async_trait]
impl Channel for ShortLived {
    fn limits(&self) -> PlatformLimits {
        PlatformLimits {
            text_max: 100,
            unit: Unit::Chars,
            caption_max: 100,
            caption_previews: false,
            typing_every: None,
            drafts: Drafts::Hinted { every: Duration::MAX },
            ambiguity_pause: Duration::ZERO,
            give_up_after: Duration::MAX,
            markup: Markup::Plain,
            file_max: 0,
            messages_max: 1,
            reacts: false,
            replies: true,
        }
    }

    async fn listen(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        publisher.link_up("for a moment".to_owned());
        self.begun.try_send(Instant::now()).unwrap();
        (self.ends)()
    }

    async fn send(&self, _: &Outbound) -> Result<Sent, ChannelError> {
        pending().await
    }

    async fn hint(&self, _: &Address, _: Hint) -> Result<(), ChannelError> {
        pending().await
    }

    async fn find(&self, _: &Outbound, _: DateTime<Utc>) -> Result<SendLookup, ChannelError> {
        pending().await
    }
}

/// When links began within so long, of a platform that ends them so.
async fn begun_within(
    fixture: &AdapterFixture,
    time: Duration,
    ends: fn() -> Result<(), ChannelError>,
) -> Vec<Instant> {
    let (begun, mut links) = mpsc::channel(LINKS_MAX);
    let platform = Arc::new(ShortLived { ends, begun });
    let (bus, link) = (fixture.bus.clone(), Arc::clone(&fixture.link));
    let run = supervise::run("home".into(), platform, bus, link, CancellationToken::new());
    assert!(timeout(time, run).await.is_err());
    std::iter::from_fn(|| links.try_recv().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_is_away_is_tried_at_least_every_half_minute() {
    let fixture = AdapterFixture::new();
    let hour = Duration::from_secs(3600);
    let begun = begun_within(&fixture, hour, || Err(ChannelError::unavailable("502"))).await;
    let gaps: Vec<_> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap <= Duration::from_secs(31)), "{gaps:?}");
    assert!(gaps[0] <= Duration::from_secs(1), "{gaps:?}");
    // Nor is it tried all the time.
    assert!((120..260).contains(&begun.len()), "{}", begun.len());
}

#[tokio::test(start_paused = true)]
async fn waits_as_long_as_a_platform_wants() {
    let fixture = AdapterFixture::new();
    let ends = || {
        let after = Some(Duration::from_secs(200));
        Err(ChannelError::Unavailable { after, reason: "later".to_owned() })
    };
    let begun = begun_within(&fixture, Duration::from_secs(500), ends).await;
    assert_eq!(begun.len(), 3, "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn a_link_that_has_ended_is_not_up() {
    let fixture = AdapterFixture::new();
    begun_within(&fixture, Duration::from_secs(100), || Ok(())).await;
    assert!(!fixture.link.state().up);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_network_cuts_a_pause_short() {
    let took = async |wait: u64, is_changed: bool| {
        let begun = Instant::now();
        let wait = Duration::from_secs(wait);
        let ended =
            if is_changed { pause(wait, ready(())).await } else { pause(wait, pending()).await };
        (ended, begun.elapsed().as_secs())
    };
    assert_eq!(took(30, false).await, (Pause::Over, 30));
    assert_eq!(took(30, true).await, (Pause::CutShort, CHANGE_PAUSE.as_secs()));
    assert_eq!(took(1, true).await, (Pause::Over, 1));
}
