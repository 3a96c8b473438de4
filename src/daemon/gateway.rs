//! The gateway's part of a daemon: its channel, the task that listens, and the one that tells the owner if it cannot.

#[cfg(feature = "gateway")]
pub mod port;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::channels::Channel;
use crate::control::ControlServer;
use crate::gateway::Config;
use crate::people::Access;
use crate::types::message::ChannelName;

/// The folder of files that were sent to the page, within the home.
#[cfg(feature = "gateway")]
const FILES: &str = "web";

/// The channels of a daemon while they are collected.
type Collected = BTreeMap<ChannelName, Arc<dyn Channel>>;

/// The gateway's config and channel. Empty in a build without the gateway.
pub(super) struct GatewayPart(
    #[cfg(feature = "gateway")] Option<(Config, crate::channels::web::WebEntrance)>,
);

#[cfg(feature = "gateway")]
impl GatewayPart {
    pub(super) fn new(config: Option<Config>, home: &Path) -> Self {
        use crate::channels::web::{Web, WebEntrance};
        use crate::gateway::config::WEB;

        let web = || WebEntrance::new(Arc::new(Web::new(WEB.into(), home.join(FILES))));
        Self(config.map(|config| (config, web())))
    }

    pub(super) fn entrance(&self) -> Option<crate::channels::web::WebEntrance> {
        self.0.as_ref().map(|(_, entrance)| entrance.clone())
    }

    pub(super) fn add_channel(
        &self,
        channels: &mut Collected,
        access: &mut BTreeMap<ChannelName, Access>,
    ) {
        if let Some((config, entrance)) = &self.0 {
            let name = entrance.web.name();
            channels.insert(name.clone(), Arc::clone(&entrance.web) as _);
            access.insert(name.clone(), config.access.clone());
        }
    }

    pub(super) fn start(
        &self,
        server: &Arc<ControlServer>,
        source_tasks: &mut JoinSet<()>,
        sources: &CancellationToken,
    ) {
        use super::tasks::respawn;
        use crate::gateway::{self, HttpGateway};

        let Some((config, entrance)) = &self.0 else { return };
        let (bus, listen) = (server.turns.services.bus.clone(), config.listen);
        let web = Arc::clone(&entrance.web);
        source_tasks.spawn(respawn("the watch over the port", sources.clone(), move |stop| {
            let (bus, state) = (bus.clone(), web.watch_port());
            async move {
                stop.run_until_cancelled(port::tell_owner(&bus, listen, state)).await;
            }
        }));
        let (config, server) = (config.clone(), Arc::clone(server));
        let gateway = HttpGateway::new(config, server, entrance.clone(), sources.clone());
        let gateway = Arc::new(gateway);
        source_tasks.spawn(respawn("the gateway", sources.clone(), move |stop| {
            gateway::run(Arc::clone(&gateway), stop)
        }));
    }
}

#[cfg(not(feature = "gateway"))]
impl GatewayPart {
    pub(super) fn new(_: Option<Config>, _: &Path) -> Self {
        Self()
    }

    pub(super) fn add_channel(&self, _: &mut Collected, _: &mut BTreeMap<ChannelName, Access>) {}

    pub(super) fn start(&self, _: &Arc<ControlServer>, _: &mut JoinSet<()>, _: &CancellationToken) {
    }
}
