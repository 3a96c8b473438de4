//! The shared state of the request handlers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::counters::Counters;
use super::event_log::EventLog;
use super::limits::{HeldConnections, RequestLimits};
use super::refused_calls::RefusedCalls;
use crate::channels::web::{Web, WebEntrance};
use crate::control::ControlServer;
use crate::gateway::Config;
use crate::services::Services;

/// Interval of comments in quiet streams. They keep proxies from closing the stream, and detect that a reader
/// is gone. All streams get theirs at the same time.
const COMMENT_EVERY: Duration = Duration::from_secs(25);

/// The gateway of a daemon.
pub struct HttpGateway {
    pub(super) config: Config,
    pub(super) control: Arc<ControlServer>,
    pub(super) web: Arc<Web>,
    /// The address for browsers, while it listens.
    pub(super) url: Arc<watch::Sender<Option<String>>>,
    pub(super) counters: Arc<Counters>,
    pub(super) events: Arc<EventLog>,
    pub(super) limits: RequestLimits,
    pub(super) held: Arc<HeldConnections>,
    pub(super) refused_calls: RefusedCalls,
    /// The start of the intervals after which all quiet streams get their comments.
    started: Instant,
    /// Ends streams when the daemon stops.
    pub(super) closing: CancellationToken,
}

impl HttpGateway {
    pub fn new(
        config: Config,
        control: Arc<ControlServer>,
        entrance: WebEntrance,
        closing: CancellationToken,
    ) -> Self {
        let (counters, limits) = (Arc::default(), RequestLimits::default());
        let held = Arc::new(HeldConnections::new(config.connections_max));
        let WebEntrance { web, url } = entrance;
        let (events, refused_calls) = (Arc::default(), RefusedCalls::default());
        let started = Instant::now();
        Self {
            config,
            control,
            web,
            url,
            counters,
            events,
            limits,
            held,
            refused_calls,
            started,
            closing,
        }
    }

    /// Returns the next time at which streams get a comment: the same for all of them, so that many quiet pages do not
    /// wake the machine one after another.
    pub(super) fn next_comment(&self) -> Instant {
        let since = self.started.elapsed();
        let rest = since.as_nanos() % COMMENT_EVERY.as_nanos();
        let rest = Duration::from_nanos(u64::try_from(rest).unwrap_or_default());
        Instant::now() + COMMENT_EVERY.saturating_sub(rest)
    }

    pub(super) fn services(&self) -> &Services {
        &self.control.turns.services
    }

    /// Returns the address for browsers.
    pub(super) fn url_of(&self, bound: SocketAddr) -> String {
        match &self.config.url {
            Some(url) => url.clone(),
            // Browsers cannot open an unspecified address, such as 0.0.0.0.
            None if bound.ip().is_unspecified() => format!("http://localhost:{}", bound.port()),
            None => format!("http://{bound}"),
        }
    }
}
