//! Keeps a channel's link alive: a link that ends is started again with back-off, without limit. Also
//! notifies people whose messages could not be stored.

use std::collections::HashMap;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Channel, ChannelError, direct};
use crate::bus::{Bus, Link, Publisher, Rejected};
use crate::channels::network::{self, Pause};
use crate::replies;
use crate::store::{Store, StoreTrouble};
use crate::types::message::{ChannelName, ChatId};

const BACKOFF_FIRST: Duration = Duration::from_secs(1);

/// Maximum wait after an outage. An attempt is a request or two, so this is no burden.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Number of failures, and so the back-off (four seconds), with which attempts continue after a network
/// change: the first attempt may have been too early.
const FAILURES_AFTER_CHANGE: u32 = 2;

/// Maximum wait that a platform can demand.
pub(super) const AFTER_MAX: Duration = Duration::from_secs(3600);

/// Pause between attempts with a token that the platform rejected. It may be accepted again.
const CLOSED_PAUSE: Duration = Duration::from_secs(300);

/// Age of a link from which its back-off starts anew.
const STEADY: Duration = Duration::from_secs(60);

/// A link is reported as up once it has held for this long: some come up and break at once, for hours.
const SETTLED: Duration = Duration::from_secs(2);

/// Minimum interval between two notices of a failed store to one chat.
const NOTICE_EVERY: Duration = Duration::from_secs(3600);

/// Listens until `stop`. Then the adapter is dropped, and nothing more is acknowledged.
pub async fn run(
    name: ChannelName,
    channel: Arc<dyn Channel>,
    bus: Bus,
    link: Arc<Link>,
    stop: CancellationToken,
) {
    let (publisher, rejected) = bus.publisher(&name, Arc::clone(&link));
    tokio::select! {
        () = stop.cancelled() => {}
        () = keep_listening(&name, channel.as_ref(), &publisher, &link) => {}
        () = send_notices(channel.as_ref(), &bus.store, rejected) => {}
    }
}

async fn keep_listening(
    name: &ChannelName,
    channel: &dyn Channel,
    publisher: &Publisher,
    link: &Link,
) {
    let mut failures = 0;
    let mut log = LinkLog { name, logged: LoggedState::Nothing };
    loop {
        let begun = Instant::now();
        let mut listening = pin!(AssertUnwindSafe(channel.listen(publisher)).catch_unwind());
        let result = tokio::select! {
            result = &mut listening => result,
            () = link.wait_until_steady(SETTLED) => {
                log.up(&link.state().about);
                listening.await
            }
        };
        if begun.elapsed() > STEADY {
            failures = 0;
        }
        let demanded = match result {
            Ok(Ok(())) => {
                link.down("the platform has ended the link");
                None
            }
            Ok(Err(ChannelError::Closed(reason))) => {
                link.down(&reason);
                log.closed(reason);
                Some(CLOSED_PAUSE)
            }
            Ok(Err(error)) => {
                log.down(&error);
                link.down(&error.to_string());
                match error {
                    ChannelError::Unavailable { after, .. } => after,
                    _ => None,
                }
            }
            Err(_) => {
                log.panicked();
                link.down("it crashed");
                None
            }
        };
        failures = pause_before_retry(failures, demanded).await;
    }
}

/// Pauses after `failures` failures: as long as the platform `demanded`, or else until the network may be
/// back. Returns the number of failures for the next pause.
async fn pause_before_retry(failures: u32, demanded: Option<Duration>) -> u32 {
    let wait = backoff(failures);
    let pause = match demanded {
        // No platform can make us try faster than our own back-off.
        Some(demanded) => network::pause(demanded.min(AFTER_MAX).max(wait), pending()).await,
        None => network::pause(wait, network::changed()).await,
    };
    match pause {
        Pause::Over => failures + 1,
        Pause::CutShort => failures.min(FAILURES_AFTER_CHANGE),
    }
}

/// Logs each change of a link once, however often it is tried.
struct LinkLog<'a> {
    name: &'a ChannelName,
    logged: LoggedState,
}

/// The last state that was logged.
enum LoggedState {
    Nothing,
    Up,
    Down {
        since: Instant,
        /// The reason, if the platform does not accept us.
        closed: Option<String>,
    },
}

impl LinkLog<'_> {
    /// Called when the link has held for [`SETTLED`]. `about` names the account.
    fn up(&mut self, about: &str) {
        match self.logged {
            LoggedState::Nothing => {
                tracing::info!(channel = %self.name, about, "The channel is up")
            }
            LoggedState::Up => {}
            LoggedState::Down { since, .. } => {
                let down_for = since.elapsed().saturating_sub(SETTLED);
                let down_for = Duration::from_secs(down_for.as_secs().max(1));
                tracing::info!(channel = %self.name, about, ?down_for, "The channel is up again");
            }
        }
        self.logged = LoggedState::Up;
    }

    fn down(&mut self, error: &ChannelError) {
        match self.logged {
            LoggedState::Nothing => {
                tracing::warn!(channel = %self.name, %error, "Cannot reach the channel, will keep trying");
            }
            LoggedState::Up => {
                tracing::warn!(channel = %self.name, %error, "Lost the channel, will reconnect");
            }
            LoggedState::Down { .. } => {
                tracing::debug!(channel = %self.name, %error, "The channel is still down");
            }
        }
        self.mark_down();
    }

    /// Logs each reason once: somebody must act on it.
    fn closed(&mut self, reason: String) {
        let name = self.name;
        if let LoggedState::Down { closed, .. } = self.mark_down()
            && closed.as_ref() != Some(&reason)
        {
            tracing::error!(channel = %name, %reason, "The platform does not accept this channel");
            *closed = Some(reason);
        }
    }

    fn panicked(&mut self) {
        tracing::error!(channel = %self.name, "The channel panicked, will restart it");
        self.mark_down();
    }

    fn mark_down(&mut self) -> &mut LoggedState {
        if !matches!(self.logged, LoggedState::Down { .. }) {
            self.logged = LoggedState::Down { since: Instant::now(), closed: None };
        }
        &mut self.logged
    }
}

/// Returns the wait after `failures` failures in a row, with jitter so that many bots do not reconnect at
/// once.
pub fn backoff(failures: u32) -> Duration {
    let full = BACKOFF_FIRST.saturating_mul(2_u32.saturating_pow(failures)).min(BACKOFF_MAX);
    full.mul_f64(fastrand::f64().mul_add(0.5, 0.5))
}

/// Notifies people that the store fails, without the outbox. Each chat gets at most one notice an hour.
async fn send_notices(channel: &dyn Channel, store: &Store, mut rejected: Rejected) {
    let mut notified: HashMap<ChatId, Instant> = HashMap::new();
    while let Some(to) = rejected.recv().await {
        notified.retain(|_, at| at.elapsed() < NOTICE_EVERY);
        if notified.contains_key(&to.chat) {
            continue;
        }
        notified.insert(to.chat.clone(), Instant::now());
        let words = match store.trouble() {
            Some(StoreTrouble::Damaged) => replies::STORE_DAMAGED,
            _ => replies::STORE_FAILED,
        };
        direct::send(channel, to, words).await;
    }
    pending().await
}
