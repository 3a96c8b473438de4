//! Checks of the service: if systemd knows it, starts it at boot and keeps it running.

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

/// More restarts since boot are no coincidence.
const RESTARTS_MAX: u32 = 5;

/// Judges the service. None if there is no systemd on this machine.
pub fn service_finding(state: Option<&ServiceState>) -> Finding {
    let Some(state) = state else {
        return Finding::ok("service", "not installed")
            .advise("`peacrab service install` installs it");
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

/// Parses the answer of `systemctl show`. None if systemd does not know the unit.
pub fn parse_service(shown: &str, is_users: bool) -> Option<ServiceState> {
    let value = |key: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim().to_owned()
    };
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
