//! The parts of the daemon that responses need, and the state of its channels. The socket itself is `control`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::protocol::ChannelStatus;
use crate::agent;
use crate::bus::outbox::{self, FailingDeliveries};
use crate::bus::{Link, LinkState};
use crate::channels::terminal::Terminal;
use crate::memory::recall::progress::IndexProgress;
use crate::store::StoreError;
use crate::turn::services::TurnServices;
use crate::types::message::ChannelName;

/// The server of the control socket.
pub struct ControlServer {
    pub turns: Arc<TurnServices>,
    pub agent: Arc<agent::Config>,
    pub terminal: Arc<Terminal>,
    pub links: BTreeMap<ChannelName, Arc<Link>>,
    pub home: String,
    pub since: DateTime<Utc>,
    /// Receives requests to reload the config. Empty if nobody handles them.
    pub reloads: OnceLock<mpsc::Sender<ReloadRequest>>,
    pub indexing: IndexProgress,
    /// The web page. None without the gateway.
    #[cfg(feature = "gateway")]
    pub web: Option<crate::channels::web::WebEntrance>,
}

/// A request to reload the config.
pub struct ReloadRequest {
    /// The result, or the reason why the former config stays.
    pub answer: oneshot::Sender<Result<ReloadReport, String>>,
    /// Resolves once the answer was written to the client, or with an error if it could not be. The daemon may end then.
    pub written: oneshot::Receiver<()>,
}

/// A config that was read again and takes effect in a moment: the JSON of `peacrab reload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReloadReport {
    /// The keys of the config file that were added, removed or set to something else, such as `agent.steps_max`. None if
    /// they are not known. Files that the config names are not compared.
    pub changed: Option<Vec<String>>,
    /// Settings that work, but perhaps not as meant.
    pub warnings: Vec<String>,
}

/// Returns the status of each channel, by name.
pub(crate) async fn channel_statuses(
    server: &ControlServer,
) -> Result<BTreeMap<String, ChannelStatus>, StoreError> {
    let names: Vec<_> = server.links.keys().cloned().collect();
    let counted = server.turns.services.bus.store.read(move |store| {
        let pending = |name| {
            Ok((outbox::count_pending(store, name)?, outbox::failing_deliveries(store, name)?))
        };
        names.iter().map(pending).collect::<rusqlite::Result<Vec<_>>>()
    });
    let statuses = server.links.iter().zip(counted.await?);
    let statuses = statuses.map(|((name, link), (pending, failing))| {
        (name.to_string(), channel_status(link.state(), pending, failing))
    });
    Ok(statuses.collect())
}

/// Returns the number of outgoing messages on each channel that this daemon does not have, by name. They wait until it has.
pub(crate) async fn removed_channels(
    server: &ControlServer,
) -> Result<BTreeMap<String, i64>, StoreError> {
    let waiting = server.turns.services.bus.store.read(outbox::waiting_channels).await?;
    let removed = waiting.into_iter().filter(|(name, _)| !server.links.contains_key(name));
    Ok(removed.map(|(name, count)| (name.to_string(), count)).collect())
}

fn channel_status(link: LinkState, pending: i64, failing: FailingDeliveries) -> ChannelStatus {
    let age = |at: Option<DateTime<Utc>>| at.map(|at| (Utc::now() - at).num_seconds().max(0));
    ChannelStatus {
        up: link.up,
        about: link.about,
        last_byte_s: age(link.last_byte),
        last_event_s: age(link.last_event),
        trouble: link.trouble,
        pending,
        failing,
    }
}
