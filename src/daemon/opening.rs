//! Opens the store, also on a full disk, and reports the start and what keeps it from starting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use rusqlite::Connection;
use sd_notify::NotifyState;
use tokio::net::UnixListener;
use tokio::time::sleep;

use crate::atomic_file;
use crate::backup;
use crate::bus::{Bus, notices, owner_place, restarted};
use crate::channels::Channel;
use crate::channels::direct::{self, DirectOutcome};
use crate::control;
use crate::conversation::{deferred, ledger};
use crate::daemon::starts::{self, FoundDamage};
use crate::daemon::{Daemon, DaemonParts};
use crate::people::{self, Access};
use crate::replies;
use crate::store::{
    FILE, FreeSpace, HomeLock, MigrationObserver, MigrationProgress, MigrationStep, OnFull,
    OpenError, StartWork, Store, StoreError, StoreOptions, Sync, find_lost_log, try_read,
};
use crate::tasks::{schedule, subagents};
use crate::trust::path_watch;
use crate::turn::background;
use crate::types::message::ChannelName;
use crate::types::safe_mode::SafeMode;
use crate::workspace::Workspace;
use crate::workspace::lost::LostWorkspace;
use crate::workspace::skills;

/// Pause before a full disk is checked again.
const DISK_FULL_PAUSE: Duration = Duration::from_secs(10);

/// Microseconds by which each pause extends systemd's start timeout: several pauses.
const WAIT_EXTENSION_US: u32 = 60_000_000;

/// Time, in microseconds, by which progress of a migration extends the time for the start: many reports, and the sync of
/// a large database at its end.
const MIGRATION_EXTENSION_US: u32 = 300_000_000;

/// Time after which commands are told of a migration. They wait for the end of a shorter one.
const MIGRATION_NOTED_AFTER: Duration = Duration::from_secs(1);

/// The interval, in seconds, between two lines of the log about a migration.
const MIGRATION_LOGGED_EVERY_S: u64 = 5;

/// Facts from the time when the store was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenedStore {
    pub(super) at: Instant,
    /// The newest time in the store.
    pub(super) newest: Option<DateTime<Utc>>,
    /// True if the owner has to hear that changes were lost with the log of the database.
    is_log_lost: bool,
}

/// The store and the folders of a home that were not there before it was opened.
struct AbsentParts(Vec<&'static str>);

impl AbsentParts {
    fn of(home: &Path) -> Self {
        let parts = [FILE, "state.db-wal", "state.db-shm"].into_iter().chain(backup::FOLDERS);
        Self(parts.filter(|name| !home.join(name).exists()).collect())
    }

    /// Gives them to the account of the home, if root has made them: the next daemon may be that account's.
    fn give_to_account(self, home: &Path) {
        // Without a home, nothing was made.
        for part in self.0.into_iter().filter(|_| home.is_dir()) {
            if let Err(error) = atomic_file::give_to_owner(home, &home.join(part)) {
                tracing::warn!(part, %error, "Cannot give this to the account of the home");
            }
        }
    }
}

/// The channels of the config, with who may use them.
type ConfiguredChannels = BTreeMap<ChannelName, (Arc<dyn Channel>, Access)>;

/// A home before it is opened.
pub(super) struct OpeningAttempt {
    home: PathBuf,
    absent: AbsentParts,
    /// The channels of a daemon that is to run. None for a command that needs the home for one request.
    channels: Option<ConfiguredChannels>,
    /// True once the start is recorded. Before, the record may be that of another daemon.
    is_counted: bool,
}

impl OpeningAttempt {
    pub(super) fn begin(parts: &DaemonParts) -> Self {
        let home = parts.home.clone();
        let absent = AbsentParts::of(&home);
        let channels = parts.supervision.counts_starts.then(|| parts.channels.clone());
        Self { home, absent, channels, is_counted: false }
    }

    /// Records the start of a daemon in the locked home. Returns the safe mode if this start leads to it.
    pub(super) fn count_start(&mut self) -> Option<SafeMode> {
        self.is_counted = self.channels.is_some();
        self.is_counted.then(|| starts::begin(&self.home)).flatten()
    }

    /// Notes that the home was opened.
    pub(super) fn succeed(self) {
        self.absent.give_to_account(&self.home);
        if self.channels.is_some() {
            starts::note_damage(&self.home, FoundDamage::None);
        }
    }

    /// Explains the failure. The owner hears of damage once, if the damaged store still tells where they are.
    pub(super) async fn fail(self, error: anyhow::Error) -> anyhow::Error {
        let Self { home, absent, channels, is_counted } = self;
        absent.give_to_account(&home);
        if is_counted {
            starts::note_refusal(&home);
        }
        let error = explain(&home, error);
        let is_damaged =
            matches!(error.downcast_ref::<OpenError>(), Some(OpenError::Damaged { .. }));
        let Some(channels) = channels.filter(|_| is_damaged) else { return error };
        if starts::found_damage(&home) != FoundDamage::Told {
            let outcome = tell_past_outbox(&home, &channels, replies::START_FINDS_DAMAGE).await;
            starts::note_damage(
                &home,
                match outcome {
                    DirectOutcome::Arrived | DirectOutcome::Unclear => FoundDamage::Told,
                    DirectOutcome::NotSent => FoundDamage::Untold,
                },
            );
        }
        error
    }
}

/// Opens the store of a locked home. Waits for disk space if the options ask for it, and tells the owner so.
pub(super) async fn store(
    lock: &Arc<HomeLock>,
    parts: &DaemonParts,
) -> anyhow::Result<(Store, OpenedStore)> {
    let DaemonParts { home, store: options, channels, .. } = parts;
    // A crash may have interrupted a restore.
    backup::restore::finish(home)?;
    let lost_log = find_lost_log(home);
    if let Some(lost) = lost_log {
        tracing::error!(?lost, "The log of the database is lost, with the newest changes");
        // The store gets a new one, also if this start is refused or killed before the owner is told.
        starts::note_lost_log(home, true);
    }
    // On a full disk it cannot be recorded.
    let is_log_lost = lost_log.is_some() || starts::is_log_lost(home);
    let at = Instant::now();
    let mut is_waiting = false;
    // None once the owner knows that it waits.
    let mut next_message = Some(at);
    let options = StoreOptions { migration: Some(migration_observer(lock)), ..options.clone() };
    let store = loop {
        match Store::open(home, &options) {
            Err(full @ OpenError::Full { .. }) if options.on_full == OnFull::Wait => {
                if !is_waiting {
                    tracing::error!(%full, "The disk is full, waiting for free space");
                }
                lock.note(Some(StartWork::AwaitsSpace));
                is_waiting = true;
                // Without this, systemd would end the wait. It fails without systemd, which does not matter.
                let longer = NotifyState::ExtendTimeoutUsec(WAIT_EXTENSION_US);
                sd_notify::notify(&[longer, NotifyState::Watchdog]).ok();
                if next_message.is_some_and(|next| next <= Instant::now()) {
                    let outcome =
                        tell_past_outbox(home, channels, replies::START_WAITS_FOR_SPACE).await;
                    next_message = outcome.pause().map(|pause| Instant::now() + pause);
                }
                sleep(DISK_FULL_PAUSE).await;
            }
            opened => break opened?,
        }
    };
    lock.note(None);
    if is_log_lost {
        // Now there is space for it, if there was none before.
        starts::note_lost_log(home, true);
    }
    if store.read(ledger::has_reserved).await.context("cannot read the store")? {
        // The end of the program interrupted these calls.
        let calls = store.write("reservations", Sync::Later, ledger::book_all_estimated).await?;
        tracing::info!(calls, "Booked model calls with an estimate, because their end was lost");
    }
    let newest = store.read(schedule::newest).await.context("cannot read the store")?;
    Ok((store, OpenedStore { at, newest, is_log_lost }))
}

/// Returns the lock of the home: the one that a daemon before this one has kept, or a new one.
pub(super) fn lock(parts: &DaemonParts) -> Result<Arc<HomeLock>, OpenError> {
    match &parts.supervision.lock {
        Some(lock) => Ok(Arc::clone(lock)),
        None => Ok(Arc::new(HomeLock::claim(&parts.home)?)),
    }
}

/// Opens the workspace, or makes that of a new home. One that is gone is not made anew.
pub(super) fn workspace(parts: &DaemonParts) -> anyhow::Result<Workspace> {
    let root = parts.home.join("workspace");
    match LostWorkspace::find(&root) {
        Some(lost) => Err(lost.into()),
        None => Workspace::open_in(&root, parts.skill_environment.clone()),
    }
}

/// Makes the control socket. Where none can be made, the start is refused.
pub(super) fn control_socket(parts: &DaemonParts) -> anyhow::Result<UnixListener> {
    let bound = control::bind(&parts.home).context("cannot make the control socket");
    if bound.is_err() && parts.supervision.counts_starts {
        starts::note_refusal(&parts.home);
    }
    bound
}

/// Tells the owner that the daemon cannot start. Nothing is sent if nobody is known as the owner.
async fn tell_past_outbox(
    home: &Path,
    channels: &ConfiguredChannels,
    words: &str,
) -> DirectOutcome {
    let Some(owner) = try_read(home, people::owner_address).flatten() else {
        return DirectOutcome::NotSent;
    };
    let Some((channel, _)) = channels.get(&owner.channel) else { return DirectOutcome::NotSent };
    direct::send(channel.as_ref(), owner, words).await
}

/// Returns an observer that tells systemd, the log, and those who look at the lock that a migration makes progress.
fn migration_observer(lock: &Arc<HomeLock>) -> MigrationObserver {
    let (lock, logged_s) = (Arc::clone(lock), AtomicU64::new(0));
    Arc::new(move |progress: MigrationProgress| {
        notify_migration(progress);
        let step = progress.step();
        if progress.took >= MIGRATION_NOTED_AFTER {
            lock.note(Some(StartWork::Updates(step)));
        }
        let took_s = progress.took.as_secs();
        if took_s >= logged_s.load(Ordering::Relaxed) + MIGRATION_LOGGED_EVERY_S {
            logged_s.store(took_s, Ordering::Relaxed);
            let MigrationStep { number, of } = step;
            tracing::info!(step = number, of, "Updating the database");
        }
    })
}

/// Tells systemd, and with it `peacrab update`, that a migration makes progress.
fn notify_migration(progress: MigrationProgress) {
    let MigrationProgress { reached, newest, took, .. } = progress;
    let words = replies::updating_database(reached, newest, took.as_secs());
    let longer = NotifyState::ExtendTimeoutUsec(MIGRATION_EXTENSION_US);
    // Fails where no systemd listens, which is fine.
    sd_notify::notify(&[NotifyState::Status(&words), longer, NotifyState::Watchdog]).ok();
}

/// Names the file, and what to do, if the error of a start is that of the store and says neither.
fn explain(home: &Path, error: anyhow::Error) -> anyhow::Error {
    if error.downcast_ref::<OpenError>().is_some() {
        return error;
    }
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>()).cloned();
    match cause {
        Some(source @ (StoreError::Corrupt(_) | StoreError::Busy(_))) => {
            OpenError::of_database(home.join(FILE), source).into()
        }
        _ => error,
    }
}

/// Facts from the time before the loop runs.
pub(super) struct PreparedStore {
    /// True if the outbox has a notice that the store was opened on a full disk.
    pub(super) full_disk_noticed: bool,
    /// The newest subagent.
    pub(super) newest_subagent: subagents::SubagentId,
}

/// Ends work that was left behind, reads what is kept in memory, and notifies the owner if the store was opened on a full
/// disk or without its log.
pub(super) async fn prepare(
    home: &Path,
    bus: &Bus,
    opened: &OpenedStore,
) -> Result<PreparedStore, StoreError> {
    keep_owner_place(bus).await?;
    let full_disk_noticed = notify_if_full(bus).await;
    if opened.is_log_lost
        && notices::send_to_owner(bus, "lost log", replies::LOG_LOST.to_owned()).await
    {
        starts::note_lost_log(home, false);
    }
    report_cut_off(bus).await?;
    tidy_subagents(bus).await?;
    let activations = bus.people.activations.clone();
    bus.store.read(move |store| activations.load(store)).await?;
    // Those of approved calls that wait are among them.
    let newest_subagent = bus.store.read(subagents::newest).await?;
    Ok(PreparedStore { full_disk_noticed, newest_subagent })
}

/// Moves the owner's address if the config names its account no more, before anything is sent there.
async fn keep_owner_place(bus: &Bus) -> Result<(), StoreError> {
    let people = bus.people.clone();
    if !bus.store.read(move |store| owner_place::is_lost(store, &people)).await? {
        return Ok(());
    }
    let people = bus.people.clone();
    let keep = move |store: &Connection| background::keep_owner_place(store, &people);
    if let Err(error) = bus.store.write("owner's address", Sync::Now, keep).await {
        tracing::warn!(%error, "Cannot move the owner's address, will try again at the next start");
    }
    Ok(())
}

/// Tells people of commands with the network that the end of the last run cut off.
async fn report_cut_off(bus: &Bus) -> Result<(), StoreError> {
    if !bus.store.read(path_watch::has_cut_off).await? {
        return Ok(());
    }
    let report = bus.store.write("commands cut off", Sync::Now, path_watch::report_cut_off);
    if let Err(error) = report.await {
        tracing::warn!(%error, "Cannot tell people of a command that was cut off, will try again at the next start");
    }
    Ok(())
}

/// Ends subagents that were left behind without a turn, and goes on with approved calls that wait, before turns begin.
async fn tidy_subagents(bus: &Bus) -> Result<(), StoreError> {
    let is_any_left = |store: &Connection| {
        Ok(deferred::is_any_queued(store)? || !subagents::strays(store)?.is_empty())
    };
    if !bus.store.read(is_any_left).await? {
        return Ok(());
    }
    let end = bus.store.write("subagents left behind", Sync::Later, background::end_strays);
    if let Err(error) = end.await {
        tracing::warn!(%error, "Cannot end subagents that were left behind, will try again at the next start");
    }
    Ok(())
}

/// Notifies the owner if the store was opened on a full disk. Returns true if the notice is stored.
async fn notify_if_full(bus: &Bus) -> bool {
    bus.store.free_space() == FreeSpace::Ballast
        && notices::send_to_owner(bus, "disk is full", replies::DISK_IS_FULL.to_owned()).await
}

/// Notifies the owner of the safe mode, once for each time that it is entered.
pub(super) async fn report_safe_mode(bus: &Bus, safe_mode: SafeMode, restarts: bool) {
    tracing::error!(
        starts = safe_mode.starts,
        "Running in safe mode after several unexpected ends; `peacrab reload` leaves it"
    );
    if safe_mode.is_reported {
        return;
    }
    let message = replies::safe_mode(safe_mode, restarts);
    notices::send_to_owner(bus, "safe mode", message).await;
}

/// Notifies the person who asked for the restart.
pub(super) async fn report_restart(bus: &Bus) {
    match bus.store.write("restarted", Sync::Now, restarted::report).await {
        Ok(()) => bus.outbox.notify(),
        Err(error) => tracing::warn!(%error, "Cannot report back after the restart"),
    }
}

impl Daemon {
    /// Logs the start, with what the daemon consists of.
    pub(super) async fn log_start(&self) {
        let found = self.services.workspace.run_blocking(skills::catalogue).await;
        for broken in &found.broken {
            tracing::warn!(skill = %broken.path, reason = %broken.reason, "Skipped a skill");
        }
        let channels: Vec<_> = self.services.channels.keys().map(|name| name.as_str()).collect();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            home = %self.plan.home.display(),
            provider = self.turns.models.default.name(),
            channels = channels.join(", "),
            tools = self.turns.tools.len(),
            skills = found.skills.len(),
            terminal = %self.terminal.name(),
            "Started"
        );
    }
}
