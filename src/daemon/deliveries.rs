//! The deliveries of a daemon's channels, and a daemon that does nothing but deliver one message.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::tasks::{end, respawn};
use super::{DRAIN_TIME_MAX, Daemon};
use crate::bus::Link;
use crate::channels::Channel;
use crate::channels::deliver::{self, Arrivals, DeliveryQueue};
use crate::config::TERMINAL;
use crate::control::send::{self, SendOutcome, SendRequest};
use crate::services::Services;
use crate::types::message::ChannelName;

impl Daemon {
    pub(super) fn deliver(
        &self,
        name: &ChannelName,
        channel: &Arc<dyn Channel>,
        delivery_tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        let Services { bus, workspace, events, redactor, .. } = self.services.clone();
        let (name, channel, arrivals) = (name.clone(), Arc::clone(channel), Arrivals::default());
        let link = self.link(&name);
        let progress = self.deliveries.get(&name).cloned().unwrap_or_default();
        let queue = DeliveryQueue {
            name,
            channel,
            bus,
            workspace,
            events,
            redactor,
            arrivals,
            link,
            progress,
        };
        let until = stop.clone();
        delivery_tasks
            .spawn(respawn("deliveries", until, move |stop| deliver::run(queue.clone(), stop)));
    }

    /// Sends one message and does nothing else: no listener, no turn.
    pub async fn send(self, request: SendRequest) -> anyhow::Result<SendOutcome> {
        let (stop, mut delivery_tasks) = (CancellationToken::new(), JoinSet::new());
        // Nobody reads the terminal of this process.
        let channels = self.services.channels.iter().filter(|(name, _)| name.as_str() != TERMINAL);
        let mut names = BTreeSet::new();
        for (name, channel) in channels {
            names.insert(name.clone());
            self.deliver(name, channel, &mut delivery_tasks, &stop);
        }
        let Services { bus, workspace, .. } = &self.services;
        let sent = send::send(bus, workspace, &names, request, &stop).await;
        stop.cancel();
        end("deliveries", delivery_tasks, DRAIN_TIME_MAX).await;
        self.services.bus.store.close().await;
        Ok(sent?)
    }

    pub(super) fn link(&self, name: &ChannelName) -> Arc<Link> {
        self.server.links.get(name).map(Arc::clone).unwrap_or_default()
    }
}
