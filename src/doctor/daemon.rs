//! Checks of the state that the running daemon reports of itself.

use super::Finding;
use crate::sandbox::SandboxState;
use crate::types::safe_mode::SafeMode;

/// Describes a daemon that runs and cannot be asked.
pub fn silent_finding(why: &str) -> Finding {
    Finding::wrong("daemon", why).advise(
        "restart it, and run `peacrab doctor` again: without it, only this machine was checked",
    )
}

/// Describes the safe mode, if the daemon is in it.
pub fn safe_mode_finding(safe_mode: Option<SafeMode>) -> Option<Finding> {
    let starts = safe_mode?.starts;
    let words = format!(
        "it is in safe mode after {starts} unexpected ends: jobs, the heartbeat, hooks, MCP servers and backups wait"
    );
    let advice = "find the reason in the log, then leave safe mode with `peacrab reload`";
    Some(Finding::warning("daemon", words).advise(advice))
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
