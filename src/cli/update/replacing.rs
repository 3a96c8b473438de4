//! The restart of the service with a new program: waits while it makes progress, and puts the old program back if it does
//! not come up, or does not stay healthy. Not if the new one has changed the store in a way that the old one cannot open:
//! then the new one stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use chrono::{DateTime, Utc};
use tokio::time::{Instant, sleep};

use super::HEALTHY_WITHIN_S;
use super::begun::BegunUpdate;
use crate::cli::interrupts::Interrupts;
use crate::cli::invocation::Invocation;
use crate::cli::systemd::{self, START_TIME_MAX, UNIT};
use crate::cli::{chat, print};
use crate::store;

/// Pause between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Times for which a version may begin to be healthy: some for a reload or a `/restart` meanwhile. One that goes on like this
/// has a fault, also if each of its ends is orderly.
const SPELLS_MAX: usize = 5;

/// The longest time for which a service is watched: far more than the change of a large database on a slow card takes.
const WATCH_TIME_MAX: Duration = Duration::from_secs(6 * 60 * 60);

/// Limits for a service to be healthy with a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct HealthLimits {
    /// Longest time until it is healthy, if it reports no progress.
    pub(super) within: Duration,
    /// Time for which it must stay healthy.
    pub(super) stays_for: Duration,
}

/// The old program was healthy before, so that it need not show that it stays so.
const OF_OLD_PROGRAM: HealthLimits =
    HealthLimits { within: Duration::from_secs(HEALTHY_WITHIN_S), stays_for: Duration::ZERO };

/// A daemon that is healthy, at each look so far.
struct HealthyRun {
    pid: u32,
    /// Its start, or that of its last reload.
    since: DateTime<Utc>,
    first_seen: Instant,
}

/// A program that has taken the place of another one, whose service is to run with it.
pub(super) struct Replacement<'a> {
    pub(super) on: &'a Invocation,
    pub(super) exe: &'a Path,
    /// The program that was there before.
    pub(super) old: PathBuf,
    /// The note beside the program. It goes when this has ended.
    pub(super) begun: &'a BegunUpdate,
    /// Those of the new version.
    pub(super) limits: HealthLimits,
}

impl Replacement<'_> {
    /// Restarts the service with the new program, and goes back if that does not come up. An interruption ends the wait
    /// and nothing else.
    pub(super) async fn start(&self, interrupts: &mut Interrupts) -> anyhow::Result<()> {
        let ended = self.restart(interrupts).await;
        BegunUpdate::remove(self.exe);
        ended
    }

    /// Goes on where a killed update was. A new version that is healthy by now stays, if it remains so.
    pub(super) async fn resume(&self, interrupts: &mut Interrupts) -> anyhow::Result<()> {
        let status = chat::status_now(&self.on.home).await;
        let runs = status
            .is_ok_and(|status| status.version == self.begun.version && status.health.is_well());
        let ended = if runs {
            self.watch(DateTime::<Utc>::MIN_UTC, interrupts).await
        } else if self.begun.goes_back {
            self.go_back(&anyhow::anyhow!("the update was killed on the way back")).await
        } else {
            self.restart(interrupts).await
        };
        BegunUpdate::remove(self.exe);
        ended
    }

    async fn restart(&self, interrupts: &mut Interrupts) -> anyhow::Result<()> {
        self.reset_state().await;
        let begun = Utc::now();
        match self.request_restart().await {
            Ok(()) => self.watch(begun, interrupts).await,
            Err(error) => self.go_back(&error).await,
        }
    }

    /// Waits until the new version that began since is healthy and stays so, or goes back.
    async fn watch(&self, begun: DateTime<Utc>, interrupts: &mut Interrupts) -> anyhow::Result<()> {
        let (version, old) = (&self.begun.version, self.old.display());
        let came_up = tokio::select! {
            biased;
            () = interrupts.next() => bail!(
                "interrupted. Version {version} is installed and its service starts, but nobody waits for it now, so \
                 it does not make way for the old one. `peacrab status` shows when it runs. The old program is {old}"
            ),
            came_up = self.wait(begun, self.limits) => came_up,
            () = sleep(WATCH_TIME_MAX) => bail!(
                "version {version} is installed, and its service has not been healthy for long enough within {} hours. It \
                 goes on, and nobody waits for it now, so it does not make way for the old one. `peacrab status` shows how \
                 it is. The old program is {old}",
                WATCH_TIME_MAX.as_secs() / 3600
            ),
        };
        match came_up {
            Ok(()) => {
                print::line(&format!("Version {version} runs. The old program is {old}."));
                Ok(())
            }
            Err(error) => self.go_back(&error).await,
        }
    }

    /// Puts the old program back, unless the store can only be opened by the new one. Always returns an error.
    async fn go_back(&self, reason: &anyhow::Error) -> anyhow::Result<()> {
        let (version, exe, old) = (&self.begun.version, self.exe, self.old.display());
        // The old program has its place again if an update was killed after that.
        let is_back = self.begun.goes_back && !self.old.exists();
        let note = BegunUpdate { goes_back: true, ..self.begun.clone() };
        if let Err(error) = note.write(exe) {
            print::error(&format!("Don't end this now, it could not go on later: {error:#}"));
        }
        // So that nobody changes the store between the look at it and the start of the old program.
        if let Err(error) = systemd::systemctl(self.begun.manager(), &["stop", UNIT]).await {
            bail!(
                "version {version} did not come up ({reason:#}), and its service cannot be stopped ({error:#}). It stays \
                 installed. The old program is {old}"
            );
        }
        // Where it cannot be known, the new version stays, too: it can open what it has written. This program may be the
        // new one, which knows more than the old one.
        if let Err(newer) = store::check_schema(&self.on.home, self.begun.former_schema) {
            let again = self.request_restart().await.err();
            let again = again.map(|error| format!(" It could not be started: {error:#}."));
            bail!(
                "version {version} did not come up ({reason:#}). The old version may be unable to open the store now: \
                 {newer}. So the new version stays, and its service starts again.{} `peacrab status` and \
                 `peacrab service logs` show how it goes. The other way is to restore the backup from before the update, \
                 with the old program: {old}",
                again.unwrap_or_default()
            );
        }
        if !is_back && let Err(error) = fs::rename(&self.old, exe) {
            self.request_restart().await.ok();
            return Err(error).with_context(|| format!("cannot put {} back", exe.display()));
        }
        self.reset_state().await;
        let begun = Utc::now();
        self.request_restart().await.context("the old version cannot be started again")?;
        self.wait(begun, OF_OLD_PROGRAM).await.context("the old version does not start again")?;
        bail!("version {version} did not start ({reason:#}). The old version runs again")
    }

    /// Has systemd forget how the service ended before. Else that would be taken for an end of the program that starts next.
    async fn reset_state(&self) {
        // It fails for a unit that is not loaded, which the restart says, too.
        systemd::systemctl(self.begun.manager(), &["reset-failed", UNIT]).await.ok();
    }

    async fn request_restart(&self) -> anyhow::Result<()> {
        systemd::systemctl(self.begun.manager(), &["restart", "--no-block", UNIT]).await.map(drop)
    }

    /// Waits until a daemon that began since is healthy, and stays so for the time that the limits name. A reload or an
    /// orderly restart meanwhile, as by `/restart`, lets that time begin anew.
    async fn wait(&self, begun: DateTime<Utc>, limits: HealthLimits) -> anyhow::Result<()> {
        let mut latest = Instant::now() + START_TIME_MAX;
        let mut until = Instant::now() + limits.within;
        let mut progress = String::new();
        let mut healthy: Option<HealthyRun> = None;
        let mut spells = 0;
        loop {
            // A systemd that cannot be asked at this moment is no failure of the service.
            let state = systemd::restart_state(self.begun.manager()).await.unwrap_or_default();
            match (state.has_ended(), spells > 0) {
                (true, true) if state.result == "success" => {}
                (true, true) => bail!("it ended soon after it was healthy: {}", state.result),
                (true, false) => bail!("it ended before it was ready: {}", state.result),
                (false, _) => {}
            }
            if state.is_starting() && !state.progress.is_empty() && state.progress != progress {
                print::line(&state.progress);
                progress = state.progress;
                until = Instant::now() + limits.within;
                // systemd lets a start that makes progress go on, too.
                latest = latest.max(until);
            }
            let asked = Instant::now();
            let looked = self.look(begun, healthy.take()).await;
            let now = Instant::now();
            match looked {
                Ok(run) if now.duration_since(run.first_seen) >= limits.stays_for => return Ok(()),
                Ok(run) => {
                    if spells == 0 {
                        let (version, time) = (&self.begun.version, limits.stays_for.as_secs());
                        print::line(&format!(
                            "Version {version} is healthy. It is watched for {time} seconds."
                        ));
                    }
                    spells += usize::from(run.first_seen >= asked);
                    ensure!(
                        spells <= SPELLS_MAX,
                        "it was healthy {SPELLS_MAX} times, and did not stay so"
                    );
                    healthy = Some(run);
                    // One that was healthy until now has all its time to be so again.
                    until = now + limits.within;
                    latest = latest.max(until);
                }
                Err(why) if now >= until.min(latest) => {
                    return Err(match spells {
                        0 => why,
                        _ => why.context("it was healthy, and did not stay so"),
                    });
                }
                Err(_) => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the daemon if it is healthy: the same as at the look before, if it still is. An error says why not.
    async fn look(
        &self,
        begun: DateTime<Utc>,
        before: Option<HealthyRun>,
    ) -> anyhow::Result<HealthyRun> {
        let status = chat::status_now(&self.on.home).await?;
        ensure!(status.since >= begun, "it was not restarted");
        ensure!(status.health.is_well(), "it is unhealthy");
        let is_same = |run: &HealthyRun| run.pid == status.pid && run.since == status.since;
        Ok(before.filter(is_same).unwrap_or_else(|| HealthyRun {
            pid: status.pid,
            since: status.since,
            first_seen: Instant::now(),
        }))
    }
}
