//! systemd as this program asks it: `systemctl` and `loginctl`, found by the PATH.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::geteuid;
use tokio::process::Command;
use tokio::time::timeout;

use crate::doctor::service::{ServiceState, parse_service};

/// The name of the unit.
pub(super) const UNIT: &str = "peacrab.service";

/// systemd starts and stops a service within this time (`TimeoutStopSec` of the unit, and some more).
const CALL_TIME_MAX: Duration = Duration::from_secs(60);

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
    call("systemctl", &[manager.arguments(), arguments].concat()).await
}

/// Lets the services of this account run while nobody is logged in.
pub(super) async fn enable_linger() -> anyhow::Result<()> {
    call("loginctl", &["enable-linger"]).await.map(drop)
}

async fn call(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let line = format!("{program} {}", arguments.join(" "));
    let running = command(program, arguments).output();
    let output = timeout(CALL_TIME_MAX, running).await;
    let output = output.with_context(|| format!("`{line}` did not end in time"))?;
    let output =
        output.with_context(|| format!("cannot run `{line}`; is this system without systemd?"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `journalctl` on this terminal until it ends.
pub(super) async fn journal(manager: Manager, arguments: &[&str]) -> anyhow::Result<()> {
    let unit = match manager {
        Manager::System => ["-u", UNIT],
        Manager::User => ["--user-unit", UNIT],
    };
    let all = [&unit as &[&str], arguments].concat();
    let status = command("journalctl", &all).status().await.context("cannot run journalctl")?;
    if !status.success() {
        bail!("journalctl failed");
    }
    Ok(())
}

/// The state of the service, of the system's manager or of this account's. None if neither knows it.
pub(super) async fn service_state() -> Option<ServiceState> {
    for manager in [Manager::System, Manager::User] {
        let fields = "--property=LoadState,ActiveState,UnitFileState,Result,NRestarts";
        let Ok(shown) = systemctl(manager, &["show", UNIT, fields]).await else { continue };
        let Some(state) = parse_service(&shown, manager == Manager::User) else { continue };
        if manager == Manager::System {
            return Some(state);
        }
        return Some(ServiceState { lingers: lingers().await, ..state });
    }
    None
}

async fn lingers() -> Option<bool> {
    let id = geteuid().as_raw().to_string();
    let shown = call("loginctl", &["show-user", &id, "--property=Linger"]).await.ok()?;
    Some(shown.trim() == "Linger=yes")
}
