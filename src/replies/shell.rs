//! What the bot says of its shell, and of the cage in which commands run.

use std::path::Path;
use std::time::Duration;

use super::as_is;

pub const SHELL_OFF: &str = "Shell: off, by config.";

pub const SHELL_UNCAGED: &str =
    "Shell: NOT CAGED, by config ([exec] sandbox = \"off\"): commands may do all that I may.";

pub fn shell_refused(why: &str) -> String {
    format!("Shell: not offered, since commands could not be caged here: {}", as_is(why))
}

/// `held` and `open` are what the kernel enforces and what it does not.
pub fn shell_caged(level: &str, held: &[String], open: &[String]) -> String {
    let held = format!("Shell: caged ({level}): {}.", held.join("; "));
    if open.is_empty() {
        return held;
    }
    format!("{held} NOT enforced on this kernel: {}.", open.join("; "))
}

/// Commands see `by`, and in it a file with secrets, or my home.
pub fn exposed(by: &Path, secrets: Option<&Path>) -> String {
    let what = match secrets {
        None => "my home is".to_owned(),
        Some(file) => format!("{} is, which holds secrets", file.display()),
    };
    format!(
        "Commands of [exec] can see {}, where {what}: move one of them, name no such path in read or write, \
         or switch the shell off with `enabled = false`",
        by.display()
    )
}

pub fn not_enforced(open: &[String]) -> String {
    format!("not enforced on this kernel: {}", open.join("; "))
}

pub fn caged_files(landlock: u32, own_root: bool) -> String {
    let by = match (landlock, own_root) {
        (0, true) => " (a file system of their own)".to_owned(),
        (0, false) => String::new(),
        (version, true) => format!(" (Landlock {version}, a file system of their own)"),
        (version, false) => format!(" (Landlock {version})"),
    };
    format!("no files but the workspace and the system's{by}")
}

pub const CAGED_NETWORK: &str = "no network";
pub const CAGED_NETWORK_ON: &str = "network on, by config";
pub const CAGED_PROCESSES: &str = "no processes but their own";
pub const CAGED_SIGNALS: &str = "no signals to others";
pub const CAGED_CALLS: &str = "no dangerous system calls";

// How a command ended.

pub const COMMAND_OVER_CPU: &str = "killed: it used too much processor time";
pub const COMMAND_OVER_FILE: &str = "killed: a file became too large";
pub const COMMAND_OVER_MEMORY: &str = "killed: it took too much memory";
pub const COMMAND_OVER_PROCESSES: &str = "killed: it had too many processes";
pub const COMMAND_OVER_DISK: &str =
    "killed: it took too much of the disk, or of its temporary folder";
pub const COMMAND_OVER_OUTPUT: &str = "killed: it wrote more than 1 GB; write to a file";
pub const COMMAND_KILLED: &str = "killed, as asked";
pub const COMMAND_LOST: &str = "killed from outside, perhaps because memory ran short";

pub fn exit_code(code: i32) -> String {
    format!("exit code {code}")
}

pub fn ended_by_signal(signal: i32) -> String {
    format!("ended by signal {signal}")
}

pub fn command_over_time(time_max: Duration) -> String {
    format!("killed: it took longer than {}", seconds(time_max))
}

pub fn command_refused(why: &str) -> String {
    format!("not started: {why}")
}

pub fn seconds(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..10_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        millis => format!("{} s", millis / 1000),
    }
}
