//! Starts the regular backups, if the config asks for them.

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::tasks::respawn;
use crate::backup::schedule;

impl Daemon {
    pub(super) fn back_up(&self, until: &CancellationToken, running: &mut JoinSet<()>) {
        let Some(config) = self.plan.backup.clone() else { return };
        let (home, bus) = (self.plan.home.clone(), self.services.bus.clone());
        running.spawn(respawn("backups", until.clone(), move |stop| {
            schedule::run(home.clone(), config.clone(), bus.clone(), stop)
        }));
    }
}
