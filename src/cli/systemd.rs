//! systemd as this program asks it: `systemctl` and `loginctl`, found by the PATH.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Signal, geteuid};
use tokio::process::Command;
use tokio::time::timeout;

use crate::config::Environment;
use crate::doctor::service::{
    AskedManager, HomeDaemon, ServicePlace, ServiceState, is_service_of, parse_service, property,
    unreachable,
};
use crate::process::account_name;
use crate::store::HomeLock;

/// The name of the unit.
pub(super) const UNIT: &str = "peacrab.service";

/// systemd starts and stops a service within this time (`TimeoutStopSec` of the unit, and some more).
const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// A service is ready within this time (`TimeoutStartSec` of the unit), or systemd ends it: its first start may have to
/// change a large database.
pub(super) const START_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// The manager that has the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manager {
    System,
    /// Of this account.
    User,
}

impl Manager {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::System => &[],
            Self::User => &["--user"],
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "systemd's own program, as the operator would type it"
)]
fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs `systemctl` and returns what it printed.
pub(super) async fn systemctl(manager: Manager, arguments: &[&str]) -> anyhow::Result<String> {
    call("systemctl", &[manager.arguments(), arguments].concat(), CALL_TIME_MAX).await
}

/// Starts or restarts the service, and waits until it is ready.
pub(super) async fn restart(manager: Manager) -> anyhow::Result<()> {
    let arguments = [manager.arguments(), &["restart", UNIT] as &[&str]].concat();
    call("systemctl", &arguments, START_TIME_MAX + CALL_TIME_MAX).await.map(drop)
}

/// Returns an error that explains what to do if a manager cannot be asked.
pub(super) async fn reach(environment: &Environment, manager: Manager) -> anyhow::Result<()> {
    let asked = systemctl(manager, &["show", "--property=Version"]).await;
    asked.map(drop).map_err(|error| explain(environment, manager, error))
}

/// Adds the reason and what to do to the error of a manager, if the place is the reason.
pub(super) fn explain(
    environment: &Environment,
    manager: Manager,
    error: anyhow::Error,
) -> anyhow::Error {
    let account = account_name(geteuid().as_raw());
    let has_bus =
        |folder: &Path| ["bus", "systemd/private"].iter().any(|it| folder.join(it).exists());
    let session = environment.raw("XDG_RUNTIME_DIR").map(Path::new);
    let asked = match manager {
        Manager::System => AskedManager::System,
        Manager::User => {
            AskedManager::User { account: &account, has_session: session.is_some_and(has_bus) }
        }
    };
    match unreachable(place(environment), asked) {
        Some(words) => error.context(words),
        None => error,
    }
}

/// Returns the place in which this program runs.
pub(super) fn place(environment: &Environment) -> ServicePlace {
    // As sd_booted(3) looks.
    if Path::new("/run/systemd/system").exists() {
        return ServicePlace::Systemd;
    }
    // Docker and Podman make these files; others set the variable.
    let marks = ["/.dockerenv", "/run/.containerenv"];
    let is_contained = marks.iter().any(|mark| Path::new(mark).exists());
    match is_contained || environment.raw("container").is_some() {
        true => ServicePlace::Container,
        false => ServicePlace::OtherInit,
    }
}

/// Lets the services of this account run while nobody is logged in.
pub(super) async fn enable_linger() -> anyhow::Result<()> {
    call("loginctl", &["enable-linger"], CALL_TIME_MAX).await.map(drop)
}

async fn call(program: &str, arguments: &[&str], within: Duration) -> anyhow::Result<String> {
    let line = format!("{program} {}", arguments.join(" "));
    let mut command = command(program, arguments);
    // Ctrl-C is for this program, which decides what becomes of the call. For the system's manager, other accounts than
    // root may be asked for a password, which only programs in the foreground can do.
    if geteuid().is_root() || arguments.contains(&"--user") {
        command.process_group(0);
    }
    let output = timeout(within, command.output()).await;
    let output = output.with_context(|| format!("`{line}` did not end in time"))?;
    let output =
        output.with_context(|| format!("cannot run `{line}`; is this system without systemd?"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `journalctl` on this terminal until it ends. Returns its exit code.
pub(super) async fn journal(manager: Manager, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let unit = match manager {
        Manager::System => ["-u", UNIT],
        Manager::User => ["--user-unit", UNIT],
    };
    let all = [&unit as &[&str], arguments].concat();
    let status = command("journalctl", &all).status().await.context("cannot run journalctl")?;
    // A reader that has seen enough, or a person who has.
    let ends = [Signal::PIPE, Signal::INT].map(Signal::as_raw);
    Ok(match (status.code(), status.signal()) {
        // It has said why on the terminal.
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        (None, Some(signal)) if ends.contains(&signal) => ExitCode::SUCCESS,
        (None, _) => ExitCode::FAILURE,
    })
}

/// The service of a home, as the managers know it.
pub(super) enum HomeService {
    Installed(ServiceState),
    /// There is one, which has another home.
    OfAnotherHome,
    Absent,
}

/// Returns the service of this home, of the system's manager or of this account's. Each may have that of another home.
pub(super) async fn service_of(home: &Path) -> HomeService {
    let mut found = HomeService::Absent;
    for manager in [Manager::System, Manager::User] {
        let Ok(Some(state)) = state_of(manager).await else { continue };
        if may_serve(manager, home).await {
            return HomeService::Installed(state);
        }
        found = HomeService::OfAnotherHome;
    }
    found
}

/// Returns false if the service of a manager has another home than this one. True also if systemd does not tell.
pub(super) async fn may_serve(manager: Manager, home: &Path) -> bool {
    let fields = "--property=MainPID,Environment,ExecStart";
    let Ok(shown) = systemctl(manager, &["show", UNIT, fields]).await else { return true };
    let daemon = match HomeLock::holder(home).and_then(|holder| holder.process) {
        Some(process) => HomeDaemon::Runs(process),
        None if HomeLock::is_free(home) => HomeDaemon::Absent,
        None => HomeDaemon::Unknown,
    };
    is_service_of(&shown, home, &daemon).unwrap_or(true)
}

/// The state of the service of one manager. None if it does not know it.
pub(super) async fn state_of(manager: Manager) -> anyhow::Result<Option<ServiceState>> {
    let fields = "--property=LoadState,ActiveState,UnitFileState,Result,NRestarts";
    let shown = systemctl(manager, &["show", UNIT, fields]).await?;
    let state = parse_service(&shown, manager == Manager::User);
    Ok(match (state, manager) {
        (Some(state), Manager::User) => Some(ServiceState { lingers: lingers().await, ..state }),
        (state, _) => state,
    })
}

/// The state of a service that was told to restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RestartState {
    active: String,
    sub: String,
    /// The reason of the last end.
    pub(super) result: String,
    /// The progress that the program reports while it starts.
    pub(super) progress: String,
}

impl RestartState {
    /// Returns true while the program is not ready.
    pub(super) fn is_starting(&self) -> bool {
        self.active == "activating" && !self.has_ended()
    }

    /// Returns true if the program has ended before it was ready.
    pub(super) fn has_ended(&self) -> bool {
        self.active == "failed" || self.sub.starts_with("auto-restart")
    }
}

/// Returns the state of the service after a restart.
pub(super) async fn restart_state(manager: Manager) -> anyhow::Result<RestartState> {
    let fields = "--property=ActiveState,SubState,Result,StatusText";
    let shown = systemctl(manager, &["show", UNIT, fields]).await?;
    let value = |key: &str| property(&shown, key).to_owned();
    Ok(RestartState {
        active: value("ActiveState"),
        sub: value("SubState"),
        result: value("Result"),
        progress: value("StatusText"),
    })
}

/// Returns the process id of the service. None if it does not run, or nobody knows.
pub(super) async fn main_process(manager: Manager) -> Option<String> {
    let shown = systemctl(manager, &["show", UNIT, "--property=MainPID"]).await.ok()?;
    let process = property(&shown, "MainPID");
    (!matches!(process, "" | "0")).then(|| process.to_owned())
}

async fn lingers() -> Option<bool> {
    let id = geteuid().as_raw().to_string();
    let show = ["show-user", &id, "--property=Linger"];
    let shown = call("loginctl", &show, CALL_TIME_MAX).await.ok()?;
    Some(shown.trim() == "Linger=yes")
}
