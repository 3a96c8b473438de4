//! Checks of the daemon: if one runs, and the state that it reports of itself.

use chrono::{DateTime, Utc};

use super::Finding;
use crate::memory::recall::progress::IndexCount;
use crate::replies;
use crate::sandbox::SandboxState;
use crate::types::safe_mode::SafeMode;

/// The subject of the findings about the daemon itself.
const CHECK: &str = "daemon";

/// The last daemon of a home in which none runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastDaemon {
    /// None has been started here. A command that opens the home for itself is none.
    Never,
    /// It was asked to end.
    Stopped,
    /// Its start ended with an error.
    Refused,
    /// It was killed, or has crashed, or the power failed.
    CutOff,
}

/// Describes the daemon that runs.
pub fn running_finding(version: &str, since: DateTime<Utc>) -> Finding {
    let since = since.format("%Y-%m-%d %H:%M UTC");
    Finding::ok(CHECK, format!("it runs since {since}, version {version}"))
}

/// Describes that no daemon runs. A bot that was started once is meant to answer. `start`: the command that starts it.
pub fn absent_finding(last: LastDaemon, start: &str) -> Finding {
    let (words, look) = match last {
        LastDaemon::Never => return Finding::ok(CHECK, "none has been started in this home yet"),
        LastDaemon::Stopped => ("none runs, although this home was in use: it was stopped", ""),
        LastDaemon::Refused => {
            ("none runs: its last start was refused", "look at the log for the reason, and ")
        }
        LastDaemon::CutOff => (
            "none runs, although this home was in use: it has ended unexpectedly",
            "look at the log for the reason, and ",
        ),
    };
    Finding::wrong(CHECK, words).advise(format!(
        "{look}start it: `systemctl start peacrab` where it is a service, else {start}"
    ))
}

/// Describes a daemon that runs and cannot be asked.
pub fn silent_finding(why: &str) -> Finding {
    Finding::wrong(CHECK, why).advise(
        "restart it, and run `peacrab doctor` again: without it, only this machine was checked",
    )
}

/// Describes a daemon whose answer this version does not understand.
pub fn other_version_finding() -> Finding {
    Finding::wrong(CHECK, "it does not answer the questions of this version")
        .advise("restart it, so that both are the same version")
}

/// Describes a home whose daemon this account may not ask.
pub fn forbidden_finding() -> Finding {
    Finding::wrong(CHECK, "this account may not ask the daemon, nor look if one runs")
        .advise("run this as the account that runs Peacrab, or as root")
}

/// Describes an agent loop that makes no passes. None while it makes them.
pub fn loop_finding(makes_passes: bool) -> Option<Finding> {
    let words = "its agent loop is stuck: messages are kept, and none is answered";
    let advice = "look at the log for the reason, and restart the daemon";
    (!makes_passes).then(|| Finding::wrong(CHECK, words).advise(advice))
}

/// Describes the safe mode, if the daemon is in it.
pub fn safe_mode_finding(safe_mode: Option<SafeMode>) -> Option<Finding> {
    let starts = safe_mode?.starts;
    let words = format!(
        "it is in safe mode after {starts} unexpected ends: jobs, the heartbeat, hooks, MCP servers and backups wait"
    );
    let advice = "find the reason in the log, then leave safe mode with `peacrab reload`";
    Some(Finding::warning(CHECK, words).advise(advice))
}

/// Describes the index of the memory, if it is being filled.
pub fn index_finding(indexing: Option<IndexCount>) -> Option<Finding> {
    let IndexCount { parts, done, total } = indexing?;
    let words = replies::indexing(parts.name(), done, total);
    let advice =
        "wait; until then, searches do not find everything, and a restart loses none of it";
    Some(Finding::warning("search", words).advise(advice))
}

/// Describes how the memory of shell commands is limited. None without a sandboxed shell.
pub fn memory_finding(shell: &SandboxState) -> Option<Finding> {
    const CHECK: &str = "memory limit of commands";
    let SandboxState::Sandboxed { enforced, .. } = shell else { return None };
    Some(match enforced.group {
        true => Finding::ok(CHECK, "exact: the kernel limits each command by a control group"),
        false => Finding::ok(
            CHECK,
            "counted: no control group was delegated to the daemon, so a command may use more for a moment",
        ),
    })
}
