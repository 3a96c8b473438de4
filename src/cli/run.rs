//! `peacrab run`: the daemon in the foreground, until a signal. After SIGHUP and `peacrab reload` it goes on in this process
//! with the config as it is then; a config that cannot be used changes nothing.

use std::fs;
use std::io::{IsTerminal, stderr, stdin};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::file_settings::FileSettings;
use super::invocation::{Invocation, warnings};
use super::{chat, print};
use crate::agent::ConfigCheck;
use crate::bus::{Bus, notices};
use crate::config::{Config, last_good};
use crate::control::{ControlServer, ReloadReport, ReloadRequest};
use crate::daemon::logging;
use crate::daemon::watchdog::Watchdog;
use crate::daemon::{Daemon, DaemonParts, Supervision, starts};
use crate::replies;
use crate::store::OnFull;

/// The time that the answer to `peacrab reload` has, before the daemon that gives it ends.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// One request at a time; more wait.
const REQUESTS_MAX: usize = 1;

/// The signals that end the daemon, or reload its config.
struct Signals {
    terminate: Signal,
    hangup: Signal,
    reloads: mpsc::Receiver<ReloadRequest>,
}

/// Runs the daemon until a signal, with a terminal of its own if there is one. Returns the exit code, by which a supervisor
/// may know a restart.
pub(super) async fn run(on: &Invocation) -> anyhow::Result<ExitCode> {
    let watch = |kind| signal(kind).context("cannot watch for signals");
    let (sender, reloads) = mpsc::channel(REQUESTS_MAX);
    let (terminate, hangup) = (watch(SignalKind::terminate())?, watch(SignalKind::hangup())?);
    let mut signals = Signals { terminate, hangup, reloads };
    let filter = match stdin().is_terminal() && stderr().is_terminal() {
        true => logging::TERMINAL_FILTER,
        false => logging::FILTER,
    };
    let first = NextDaemon::load(on, || on.prepare_with(filter)).inspect_err(|_| {
        if let Some(kept) = last_good::kept(&on.home) {
            print::error(&replies::last_good_config(&kept));
        }
    });
    let mut next = Some(first?);
    let mut restarts = false;
    // Kept between a daemon and the next one: no command opens the home in between.
    let mut lock = None;
    while let Some(NextDaemon { mut plan, file, warnings: _ }) = next {
        plan.store.on_full = OnFull::Wait;
        plan.supervision = Supervision {
            watchdog: watchdog_of_systemd(),
            counts_starts: true,
            config_check: Some(config_check(on, file.has_settings)),
            lock: lock.take(),
        };
        let daemon = tokio::select! {
            biased;
            daemon = Box::pin(Daemon::open(plan)) => daemon?,
            // On a full disk, the start waits for space.
            _ = signals.terminate.recv() => {
                starts::end(&on.home);
                return Ok(ExitCode::SUCCESS);
            }
        };
        report_lost_config(on, &daemon.control_server().turns.services.bus).await;
        let agent = Arc::clone(&daemon.control_server().agent);
        lock = Some(daemon.lock());
        next = Box::pin(run_daemon(on, daemon, file, &sender, &mut signals)).await?;
        restarts = agent.restart.as_ref().is_some_and(|restart| restart.stop.is_cancelled());
    }
    let code = on.environment.restart_code().filter(|_| restarts);
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Tells the owner that the settings of the config file are lost, and that the daemon runs with the environment alone: once
/// for each file.
async fn report_lost_config(on: &Invocation, bus: &Bus) {
    let Some(loss) = last_good::lost(&on.home, on.config.as_deref()) else { return };
    let changed = fs::metadata(&loss.kept).and_then(|kept| kept.modified()).unwrap_or(UNIX_EPOCH);
    let (kind, words) = match loss.is_emptied() {
        true => ("emptied", replies::config_emptied(&loss.kept)),
        false => ("gone", replies::config_gone(&loss.kept)),
    };
    let key = format!("config {kind} {}", DateTime::<Utc>::from(changed).timestamp());
    if let Err(error) = notices::notify_owner(bus, key, words).await {
        tracing::warn!(%error, "Cannot tell the owner that the settings of the config file are lost");
    }
}

/// Returns the check before a restart: the config must load, and give the parts of a daemon.
fn config_check(on: &Invocation, has_settings: bool) -> ConfigCheck {
    let on = on.clone();
    Arc::new(move || {
        let planned = on.load_again(has_settings).and_then(|config| on.plan(config));
        planned.map(drop).map_err(|error| {
            replies::restart_refused(&format!("{error:#}"), last_good::kept(&on.home).as_deref())
        })
    })
}

/// A daemon that is about to start, and its config file.
struct NextDaemon {
    plan: DaemonParts,
    file: UsedFile,
    /// The settings that will work, but perhaps not as meant.
    warnings: Vec<String>,
}

/// The config file of a daemon.
struct UsedFile {
    /// False if only the environment counts.
    has_settings: bool,
    /// None without a file, or if it was changed while it was read.
    text: Option<String>,
    /// The settings in the text.
    settings: Option<FileSettings>,
}

impl NextDaemon {
    fn load(
        on: &Invocation,
        load: impl FnOnce() -> anyhow::Result<Config>,
    ) -> anyhow::Result<Self> {
        let read = || last_good::current_text(&on.home, on.config.as_deref());
        let text = read();
        let has_settings = text.as_deref().is_some_and(last_good::has_settings);
        let config = load()?;
        let warnings = warnings(&config, &on.home);
        let plan = on.plan(config)?;
        let text = text.filter(|text| read().as_ref() == Some(text));
        let settings = text.as_deref().and_then(FileSettings::parse);
        Ok(Self { plan, file: UsedFile { has_settings, text, settings }, warnings })
    }

    /// Returns the report for whoever asked for the reload. `before` has the settings of the daemon that runs.
    fn report(&self, before: Option<&FileSettings>) -> ReloadReport {
        let settings = self.file.settings.as_ref().zip(before);
        let changed = settings.map(|(settings, before)| settings.changed_since(before));
        ReloadReport { changed, warnings: self.warnings.clone() }
    }
}

/// Returns the watchdog that the unit asks for (`WatchdogSec=`).
fn watchdog_of_systemd() -> Option<Watchdog> {
    let report = || {
        sd_notify::notify(&[NotifyState::Watchdog]).ok();
    };
    sd_notify::watchdog_enabled().map(|within| Watchdog { within, report: Arc::new(report) })
}

/// Runs one daemon to its end, and keeps the text of its config once it runs. Returns the next one, if the config was
/// read again.
async fn run_daemon(
    on: &Invocation,
    daemon: Daemon,
    file: UsedFile,
    reloads: &mpsc::Sender<ReloadRequest>,
    signals: &mut Signals,
) -> anyhow::Result<Option<NextDaemon>> {
    let UsedFile { has_settings, text, settings } = file;
    let stop = CancellationToken::new();
    let server = daemon.control_server();
    server.reloads.set(reloads.clone()).ok();
    let until = stop.clone();
    let (ready, runs) = oneshot::channel();
    let terminal = async {
        runs.await.ok();
        chat::run_own_terminal(Arc::clone(&server), on).await;
    };
    let watching = async {
        let mut terminal = pin!(terminal);
        let next = tokio::select! {
            next = next_plan(on, signals, &server, has_settings, settings.as_ref()) => next,
            () = &mut terminal => None,
            () = until.cancelled() => None,
        };
        notify_ending(next.is_some());
        until.cancel();
        next
    };
    let ready = || {
        ready.send(()).ok();
        // Fails where no systemd listens, which is fine.
        sd_notify::notify(&[NotifyState::Ready]).ok();
        if let Some(Err(error)) = text.map(|text| last_good::keep(&on.home, &text)) {
            tracing::warn!(%error, "Cannot keep a copy of the config that works");
        }
    };
    let (ran, next) = tokio::join!(run_until_end(daemon, &stop, ready), watching);
    ran.map(|()| next)
}

fn notify_ending(reloads: bool) {
    let now = NotifyState::monotonic_usec_now();
    match (reloads, now) {
        (true, Ok(now)) => sd_notify::notify(&[NotifyState::Reloading, now]).ok(),
        _ => sd_notify::notify(&[NotifyState::Stopping]).ok(),
    };
}

/// Waits for a signal to end, which gives no plan, or for a config that can be used. `settings` are those of the daemon.
async fn next_plan(
    on: &Invocation,
    signals: &mut Signals,
    server: &ControlServer,
    has_settings: bool,
    settings: Option<&FileSettings>,
) -> Option<NextDaemon> {
    let mut told = None;
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return None,
            _ = signals.hangup.recv() => {
                // The terminal has gone away; a service has none.
                if chat::has_own_terminal() {
                    return None;
                }
                let read = tokio::select! {
                    biased;
                    _ = signals.terminate.recv() => return None,
                    read = read_again(on, has_settings) => read,
                };
                match read {
                    Ok(plan) => return Some(plan),
                    Err(error) => tell_owner(on, server, error, &mut told).await,
                }
            }
            Some(ReloadRequest { answer, written }) = signals.reloads.recv() => {
                // Whoever asked the daemon before asks again.
                if answer.is_closed() {
                    continue;
                }
                if chat::has_own_terminal() {
                    answer.send(Err(replies::RELOAD_IN_TERMINAL.to_owned())).ok();
                    continue;
                }
                let read = tokio::select! {
                    biased;
                    _ = signals.terminate.recv() => return None,
                    read = read_again(on, has_settings) => read,
                };
                let report = read.as_ref().map(|next| next.report(settings));
                answer.send(report.map_err(String::clone)).ok();
                let written = timeout(ANSWER_TIME_MAX, written).await;
                match read {
                    Ok(plan) => return Some(plan),
                    // Whoever asked has the reason.
                    Err(_) if matches!(written, Ok(Ok(()))) => {}
                    Err(error) => tell_owner(on, server, error, &mut told).await,
                }
            }
        }
    }
}

/// Reads the config again. If it cannot be used, the log gets the reason, too. A file system that hangs keeps this waiting,
/// and nothing else.
async fn read_again(on: &Invocation, has_settings: bool) -> Result<NextDaemon, String> {
    let own = on.clone();
    let load = move || NextDaemon::load(&own, || own.load_again(has_settings));
    let error = match tokio::task::spawn_blocking(load).await {
        Ok(Ok(plan)) => {
            tracing::info!("Read the config again");
            return Ok(plan);
        }
        Ok(Err(error)) => format!("{error:#}"),
        Err(error) => format!("the config could not be read: {error}"),
    };
    tracing::error!(error, "Cannot use the changed config, will keep the earlier one");
    Err(error)
}

/// Tells the owner why the changed config cannot be used, unless that is what they were `told` last: a script may ask again
/// and again.
async fn tell_owner(
    on: &Invocation,
    server: &ControlServer,
    error: String,
    told: &mut Option<String>,
) {
    if told.as_ref() == Some(&error) {
        return;
    }
    let words = replies::reload_failed(&error, last_good::kept(&on.home).as_deref());
    let bus = &server.turns.services.bus;
    if notices::send_to_owner(bus, "reload failed", words).await {
        *told = Some(error);
    }
}

/// Runs the daemon; when it ends by itself, `stop` tells those beside it.
pub(super) async fn run_until_end(
    daemon: Daemon,
    stop: &CancellationToken,
    ready: impl FnOnce(),
) -> anyhow::Result<()> {
    let ran = Box::pin(daemon.run(stop.clone(), ready)).await;
    stop.cancel();
    ran
}
