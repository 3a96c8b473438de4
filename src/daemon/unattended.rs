//! The parts of a daemon that act without being asked: jobs, the heartbeat, hooks, MCP servers, backups, the index,
//! deletion of old rows. In the safe mode none of them starts, and the loop leaves background tasks alone that were there
//! before it (`agent::Config`).

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::tasks::respawn;
use super::{Daemon, pruning};
use crate::bus::{Bus, notices};
use crate::hooks::{self, Hook};
use crate::replies;
use crate::tasks::heartbeat;
use crate::tasks::schedule::{self, Scheduler};
use crate::types::event::EventSubscriber;

impl Daemon {
    /// Returns true if this daemon may act by itself.
    fn may_act(&self) -> bool {
        self.agent.safe_mode.is_none()
    }

    /// Starts jobs, the heartbeat, backups and the index.
    pub(super) fn start_unattended(&self, sources: &CancellationToken, running: &mut JoinSet<()>) {
        if !self.may_act() {
            return;
        }
        let (clock, commands) = (self.plan.clock.clone(), self.plan.commands.clone());
        let watcher = &self.turns.instruction_watcher;
        let people = &self.services.bus.people;
        let personas = self.turns.config.personas.of_jobs(people, self.services.zone);
        let scheduler = Scheduler::new(&self.services, commands, clock, watcher, personas);
        running.spawn(respawn("jobs", sources.clone(), move |stop| {
            schedule::run(scheduler.clone(), stop)
        }));
        let heartbeat = self.turns.heartbeat.clone();
        running.spawn(respawn("the heartbeat", sources.clone(), move |stop| {
            heartbeat::run(heartbeat.clone(), stop)
        }));
        self.back_up(sources, running);
        self.index(sources, running);
    }

    /// Starts the deletion of old rows.
    pub(super) fn start_tidying(&self, sources: &CancellationToken, running: &mut JoinSet<()>) {
        if !self.may_act() {
            return;
        }
        let pruner = pruning::Pruner::of(self);
        running.spawn(respawn("tidying", sources.clone(), move |stop| pruner.clone().run(stop)));
    }

    /// Starts the hooks. They run until `until`, so that they also receive the end of turns.
    pub(super) fn start_hooks(&self, until: &CancellationToken) -> JoinSet<()> {
        let mut hook_tasks = JoinSet::new();
        if self.may_act() && !self.plan.hooks.is_empty() {
            let (bus, hooks) = (self.services.bus.clone(), self.plan.hooks.clone());
            let events = self.services.events.clone();
            hook_tasks.spawn(respawn("hooks", until.clone(), move |stop| {
                run_hooks(bus.clone(), hooks.clone(), events.subscribe(), stop)
            }));
        }
        hook_tasks
    }

    /// Starts the MCP servers.
    #[cfg(feature = "mcp")]
    pub(super) fn set_mcp_tools(&self, until: &CancellationToken) -> JoinSet<()> {
        use std::sync::Arc;

        use crate::tools::mcp;

        let mut mcp_tasks = JoinSet::new();
        if self.may_act() && !self.plan.mcp.is_empty() {
            let servers = mcp::Servers::new(
                &self.plan.mcp,
                self.turns.tools.clone(),
                self.services.bus.clone(),
                self.services.workspace.clone(),
            );
            mcp_tasks.spawn(respawn("MCP servers", until.clone(), move |stop| {
                Arc::clone(&servers).run(stop)
            }));
        }
        mcp_tasks
    }

    #[cfg(not(feature = "mcp"))]
    pub(super) fn set_mcp_tools(&self, _: &CancellationToken) -> JoinSet<()> {
        JoinSet::new()
    }
}

/// Reports the hooks that must not be started, in the log and once to the owner, and runs the others.
async fn run_hooks(
    bus: Bus,
    hooks: BTreeMap<String, Hook>,
    events: EventSubscriber,
    stop: CancellationToken,
) {
    let (refused, hooks): (BTreeMap<_, _>, BTreeMap<_, _>) =
        hooks.into_iter().partition(|(_, hook)| hook.refused.is_some());
    for (name, hook) in refused {
        let Some(why) = hook.refused else { continue };
        tracing::error!(hook = %name, %why, "A hook is not run");
        let (key, text) = (format!("hook {name}: {why}"), replies::hook_refused(&name, &why));
        if let Err(error) = notices::notify_owner(&bus, key, text).await {
            tracing::error!(%error, "Cannot report a hook that is not run");
        }
    }
    hooks::run(hooks, events, stop).await;
}
