//! Checks of the service: if systemd knows it, starts it at boot and keeps it running.

use std::path::{Path, PathBuf};

use super::{Finding, Repair};

/// The facts that systemd tells of the service, where it is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceState {
    /// True for a service of one account (`systemctl --user`).
    pub is_users: bool,
    /// `active`, `failed`, `inactive` and so on.
    pub active: String,
    /// `enabled`, `disabled` and so on.
    pub unit_file: String,
    /// The reason of the last end: `success`, `exit-code`, `watchdog` and so on.
    pub result: String,
    pub restarts: u32,
    /// True if services of this account run while nobody is logged in. None for a service of the system.
    pub lingers: Option<bool>,
}

/// The place in which the program runs, as far as a service needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServicePlace {
    /// systemd is the init of this machine.
    Systemd,
    /// Another init is.
    OtherInit,
    /// A container without an init of its own.
    Container,
}

/// Explains why a manager of services cannot be asked, and what to do. None if the place is no reason.
pub fn unreachable(place: ServicePlace, manager: AskedManager<'_>) -> Option<String> {
    match (place, manager) {
        (ServicePlace::OtherInit, _) => Some(
            "systemd does not run on this machine; let its own init start `peacrab run`".to_owned(),
        ),
        (ServicePlace::Container, _) => Some(
            "systemd does not run in this container; its engine starts `peacrab run`, and starts it again".to_owned(),
        ),
        (ServicePlace::Systemd, AskedManager::User { account, has_session: false }) => Some(format!(
            "there is no login session of account {account}, as after `su` or `sudo` (XDG_RUNTIME_DIR is not set, or has no \
             bus): log in as {account} by ssh or at the console and try again; where that is not possible, run `loginctl \
             enable-linger {account}` as root and set XDG_RUNTIME_DIR to /run/user/ and the number of the account"
        )),
        (ServicePlace::Systemd, _) => None,
    }
}

/// The manager of services that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedManager<'a> {
    System,
    User {
        account: &'a str,
        /// True if the manager's bus is where the environment says.
        has_session: bool,
    },
}

/// More restarts since boot are no coincidence.
const RESTARTS_MAX: u32 = 5;

/// Judges the service. None if no manager knows it.
pub fn service_finding(state: Option<&ServiceState>, place: ServicePlace) -> Finding {
    let Some(state) = state else {
        return match place {
            ServicePlace::Systemd => Finding::ok("service", "not installed")
                .advise("`peacrab service install` installs it"),
            ServicePlace::OtherInit => {
                Finding::ok("service", "not installed; systemd does not run here")
            }
            ServicePlace::Container => Finding::ok(
                "service",
                "not installed; the engine of this container starts the program",
            ),
        };
    };
    let user = if state.is_users { " --user" } else { "" };
    if state.active == "failed" {
        let words = format!("it has failed ({})", state.result);
        let advice = format!(
            "`journalctl{user} -u peacrab` shows why; `systemctl{user} restart peacrab` starts it again"
        );
        return Finding::wrong("service", words).advise(advice);
    }
    if state.unit_file != "enabled" {
        let words = format!("it is {}, so it does not start at boot", state.unit_file);
        return Finding::warning("service", words)
            .advise(format!("systemctl{user} enable --now peacrab"));
    }
    if state.lingers == Some(false) {
        let words = "it ends when you log out, because this account does not linger";
        let advice = "loginctl enable-linger";
        return Finding::warning("service", words).advise(advice).repaired_by(Repair::Linger);
    }
    if state.restarts > RESTARTS_MAX {
        let words = format!("systemd has restarted it {} times", state.restarts);
        return Finding::warning("service", words).advise(format!("journalctl{user} -u peacrab"));
    }
    match state.active.as_str() {
        "active" => Finding::ok("service", "it runs, and starts at boot"),
        other => Finding::warning("service", format!("it is {other}"))
            .advise(format!("systemctl{user} start peacrab")),
    }
}

/// Describes that the service which systemd knows is none of this home.
pub fn other_home_finding() -> Finding {
    Finding::ok("service", "not installed for this home; the one that is installed has another")
}

/// The daemon of a home, with which a service is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeDaemon {
    /// It is this process.
    Runs(String),
    Absent,
    Unknown,
}

/// Returns true if a service is that of this home, by the `MainPID`, `Environment` and `ExecStart` of `systemctl show`. None
/// if they do not tell.
pub fn is_service_of(shown: &str, home: &Path, daemon: &HomeDaemon) -> Option<bool> {
    let process = Some(property(shown, "MainPID")).filter(|it| !matches!(*it, "" | "0"));
    if let (Some(process), HomeDaemon::Runs(daemon)) = (process, daemon)
        && process == daemon
    {
        return Some(true);
    }
    if let Some(is_named) = names_home(shown, home) {
        return Some(is_named);
    }
    match (process, daemon) {
        (Some(_), HomeDaemon::Runs(_) | HomeDaemon::Absent) => Some(false),
        (Some(_), HomeDaemon::Unknown) | (None, _) => None,
    }
}

/// Returns true if the unit names this home. None if it names none that can be read: systemd does not print values with
/// blanks in an unambiguous way.
fn names_home(shown: &str, home: &Path) -> Option<bool> {
    let real = |path: &Path| -> PathBuf {
        let found = path.canonicalize().or_else(|_| std::path::absolute(path));
        found.unwrap_or_else(|_| path.to_owned())
    };
    let own = real(home);
    let is_own = |named: &str| real(Path::new(named)) == own;
    let arguments = property(shown, "ExecStart").split_once("argv[]=").map_or("", |it| it.1);
    let arguments = arguments.split_once(" ; ").map_or(arguments, |it| it.0);
    if let Some((_, named)) = arguments.split_once(" --home") {
        let named = named.strip_prefix(['=', ' ']).unwrap_or(named);
        // Its end is not marked, and it may have blanks.
        let mut ends = named.match_indices(' ').map(|(end, _)| end).chain([named.len()]);
        return Some(ends.any(|end| is_own(&named[..end])));
    }
    let variables = property(shown, "Environment").split_whitespace();
    let mut named = variables.filter_map(|word| word.strip_prefix("PEACRAB_HOME="));
    named.next_back().map(is_own)
}

/// Returns the value of a property in the answer of `systemctl show`. Empty if there is none.
pub fn property<'a>(shown: &'a str, key: &str) -> &'a str {
    let line = shown.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_default().trim()
}

/// Parses the answer of `systemctl show`. None if systemd does not know the unit.
pub fn parse_service(shown: &str, is_users: bool) -> Option<ServiceState> {
    let value = |key: &str| property(shown, key).to_owned();
    if value("LoadState") != "loaded" {
        return None;
    }
    Some(ServiceState {
        is_users,
        active: value("ActiveState"),
        unit_file: value("UnitFileState"),
        result: value("Result"),
        restarts: value("NRestarts").parse().unwrap_or_default(),
        lingers: None,
    })
}
