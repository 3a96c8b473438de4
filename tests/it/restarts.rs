//! The daemon's own tasks go on after a panic: each is begun again, later each time, and the log says so.

use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use peacrab::bus::Publisher;
use peacrab::channels::{Channel, ChannelError, PlatformLimits, SendLookup, Sent};
use peacrab::daemon::Daemon;
use peacrab::daemon::tasks::respawn;
use peacrab::people::Access;
use peacrab::types::message::{Address, Hint, Outbound};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions};
use crate::tidy::rust_files;

/// When a task that always breaks was begun, within some minutes of paused time.
async fn begun(breaks: impl Fn()) -> Vec<Instant> {
    let mut begun = Vec::new();
    let task = respawn("a test", CancellationToken::new(), |_| {
        begun.push(Instant::now());
        breaks();
        async {}
    });
    assert!(timeout(Duration::from_secs(600), task).await.is_err(), "it was given up");
    begun
}

fn check_backs_off(begun: &[Instant]) {
    let pauses: Vec<_> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= Duration::from_secs(1), "{pauses:?}");
    assert!(pauses.last().is_some_and(|last| *last >= Duration::from_secs(15)), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(31)), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_begun_again_later_each_time() {
    check_backs_off(&begun(|| panic!("as a test wishes")).await);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_by_itself_is_begun_again_later_each_time() {
    check_backs_off(&begun(|| {}).await);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_to_be_begun_again_ends_at_once() {
    let stop = CancellationToken::new();
    let begun = Instant::now();
    let task = respawn("a test", stop.clone(), |_| async { panic!("as a test wishes") });
    let stops = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        stop.cancel();
    };
    tokio::join!(task, stops);
    assert_eq!(begun.elapsed(), Duration::from_secs(100));
}

/// A channel that panics before its adapter has begun to work, which is caught nowhere near.
struct PanickingChannel {
    limits: PlatformLimits,
    listened: watch::Sender<usize>,
    /// Of so many attempts.
    panics: AtomicUsize,
}

#[async_trait]
impl Channel for PanickingChannel {
    fn limits(&self) -> PlatformLimits {
        self.limits
    }

    fn listen<'a, 'b, 'c>(
        &'a self,
        _: &'b Publisher,
    ) -> Pin<Box<dyn Future<Output = Result<(), ChannelError>> + Send + 'c>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.listened.send_modify(|times| *times += 1);
        let left = self
            .panics
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(left.is_err(), "as a test wishes");
        Box::pin(std::future::pending())
    }

    async fn send(&self, _: &Outbound) -> Result<Sent, ChannelError> {
        Err(ChannelError::unavailable("nobody is here"))
    }

    async fn hint(&self, _: &Address, _: Hint) -> Result<(), ChannelError> {
        Ok(())
    }

    async fn find(&self, _: &Outbound, _: DateTime<Utc>) -> Result<SendLookup, ChannelError> {
        Ok(SendLookup::Unknowable)
    }
}

#[tokio::test]
async fn a_channel_whose_supervision_panics_is_listened_to_again() {
    let rig = Rig::at_rest(FakeChannel::new(), RigOptions::default());
    let (listened, mut times) = watch::channel(0);
    let limits = rig.home.limits();
    let channel = Arc::new(PanickingChannel { limits, listened, panics: AtomicUsize::new(2) });
    let mut plan = rig.plan();
    plan.channels.insert("broken".into(), (channel as _, Access::default()));
    let daemon = Daemon::open(plan).await.unwrap();
    let stop = CancellationToken::new();
    let tests = async {
        let listened = timeout(Duration::from_secs(30), times.wait_for(|times| *times >= 3));
        listened.await.expect("it is listened to again").unwrap();
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(daemon.run(stop.clone(), || {}), tests);
    ran.unwrap();
}

/// Whatever is added to the daemon is begun again, too. What tidies up at the end runs once.
#[test]
fn every_task_of_the_daemon_is_begun_again() {
    let daemon = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/daemon.rs"));
    let parts = rust_files(&["src/daemon"]);
    let code: String = parts.iter().map(|part| part.text()).chain([&*daemon.unwrap()]).collect();
    let code: String = code.split_whitespace().collect();
    let spawned: Vec<_> = code.split(".spawn(").skip(1).collect();
    let once: Vec<_> = spawned.iter().filter(|task| !task.starts_with("respawn(")).collect();
    assert!(spawned.len() >= 9, "the daemon starts its tasks elsewhere");
    assert!(once.len() == 1 && once[0].starts_with("asyncmove{store.close()"), "{once:?}");
}
