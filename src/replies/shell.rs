//! Sentences about the shell, and the sandbox of its commands.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::{as_is, shown_path};

pub const SHELL_OFF: &str = "Shell: off in the config.";

pub const SHELL_WITHOUT_SANDBOX: &str = "Shell: NO SANDBOX, by config ([exec] sandbox = \"off\"). Commands can do everything that I can.";

pub fn shell_refused(why: &str) -> String {
    format!("Shell: not available, because commands can't be sandboxed here: {}", as_is(why))
}

/// `held` and `open` are what the kernel enforces and what it does not.
pub fn shell_sandboxed(level: &str, held: &[String], open: &[String]) -> String {
    let held = format!("Shell: sandboxed ({level}): {}.", held.join("; "));
    if open.is_empty() {
        return held;
    }
    format!("{held} NOT enforced on this kernel: {}.", open.join("; "))
}

/// Commands see `by`, and in it a file with secrets, or my home.
pub fn exposed(by: &Path, secrets: Option<&Path>) -> String {
    let by = by.display();
    let (what, it) = match secrets {
        None => ("Peacrab's home".to_owned(), "the home"),
        Some(file) => (format!("the secrets in {}", file.display()), "that file"),
    };
    format!(
        "Shell commands could read {what}, because they can see {by}. Move {it}, remove {by} from `read` and \
         `write` in [exec], or set `[exec] enabled = false`."
    )
}

/// A path of the config leads elsewhere than at the start.
pub fn leads_elsewhere(path: &Path) -> String {
    let path = path.display();
    format!(
        "{path} leads elsewhere than when I started. If this is on purpose, run `peacrab reload`"
    )
}

pub fn not_enforced(open: &[String]) -> String {
    format!("not enforced on this kernel: {}", open.join("; "))
}

pub fn sandboxed_files(landlock: u32, own_root: bool) -> String {
    let by = match (landlock, own_root) {
        (0, true) => " (own file system)".to_owned(),
        (0, false) => String::new(),
        (version, true) => format!(" (Landlock {version}, own file system)"),
        (version, false) => format!(" (Landlock {version})"),
    };
    format!("files limited to the workspace and the system{by}")
}

/// `why` is empty, or stands in parentheses.
pub fn weaker_sandbox(lost: &str, why: &str) -> String {
    format!("its sandbox would be weaker than at my start, without {lost}{why}")
}

/// Why a daemon that is root runs no commands.
pub fn no_account(why: &str) -> String {
    format!(
        "I run as root, and commands can't get an account of their own here: {why}. Run me as another account, as the \
         service does, or set sandbox to best-effort in the config"
    )
}

/// Why a sandbox cannot have a path of the machine.
pub fn cannot_show_path(path: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be shown in the sandbox: {error}", path.display())
}

pub fn cannot_id_map(path: &Path, error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EINVAL) => {
            format!("the file system of {} has no id-mapped mounts (EINVAL)", path.display())
        }
        _ => format!("{} cannot be mounted for it: {error}", path.display()),
    }
}

pub const SANDBOXED_ACCOUNT: &str = "an account of their own, because I run as root";
pub const SANDBOXED_NETWORK: &str = "no network";
pub const SANDBOXED_NETWORK_ON: &str = "network on by config";
pub const SANDBOXED_PROCESSES: &str = "no access to other processes";
pub const SANDBOXED_SIGNALS: &str = "no signals to other processes";
pub const SANDBOXED_GROUP: &str = "memory limited by a control group";
pub const SANDBOXED_CALLS: &str = "no dangerous system calls";

// How a command ended.

pub const COMMAND_OVER_CPU: &str = "killed: it used too much CPU time";
pub const COMMAND_OVER_FILE: &str = "killed: it wrote a file that is too large";
pub const COMMAND_OVER_MEMORY: &str = "killed: it used too much memory";
pub const COMMAND_OVER_PROCESSES: &str = "killed: it started too many processes";
pub const COMMAND_OVER_DISK: &str =
    "killed: it used too much disk space, or too much of its temporary folder";
pub const COMMAND_OVER_OUTPUT: &str = "killed: it wrote more than 1 GB; write to a file";
pub const COMMAND_KILLED: &str = "killed on request";
pub const COMMAND_LOST: &str = "killed from outside, perhaps because memory ran out";

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

/// Why Landlock keeps no files away: its version, or the error of the kernel that was asked for it.
pub fn no_landlock(found: Result<i64, i32>) -> String {
    match found {
        Ok(version) => format!(
            "this kernel's Landlock is version {version}, which cannot protect all files by itself (version 3 of Linux 6.2 can), and neither user namespaces nor seccomp are available"
        ),
        Err(libc::ENOSYS) => "this kernel has no Landlock (ENOSYS): it needs Linux 5.13 or newer, built with it".to_owned(),
        Err(libc::EOPNOTSUPP) => {
            "Landlock is in this kernel, but switched off (EOPNOTSUPP): add `landlock` to the `lsm=` of its command line"
                .to_owned()
        }
        Err(libc::EPERM) => {
            "a system call filter blocks Landlock (EPERM). The kernel supports it; a systemd unit or a container sets the filter. \
             Allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self there, as packaging/peacrab.service does"
                .to_owned()
        }
        Err(error) => {
            let error = std::io::Error::from_raw_os_error(error);
            format!("Landlock cannot be used here: {error}")
        }
    }
}

/// The beginnings of [`files_changed_by_command`], for a command that has ended by itself, and one that was stopped.
pub const NETWORK_COMMAND_DONE: &str = "The command with the network is done.";
pub const NETWORK_COMMAND_STOPPED: &str = "I stopped the command with the network.";

/// Tells which files a command with the network has changed: each has the kind of its change, and its path. `more` are left
/// out. `is_whole` is false if there were too many files to compare.
pub fn files_changed_by_command<'a>(
    ended: &str,
    changes: impl Iterator<Item = (&'a str, &'a str)>,
    more: usize,
    is_whole: bool,
) -> String {
    let mut text = format!("{ended} It changed these files:");
    for (kind, path) in changes {
        let _ = write!(text, "\n- {kind}: {}", shown_path(path));
    }
    if more > 0 {
        let _ = write!(text, "\n- and {more} more");
    }
    if !is_whole {
        text.push_str(
            "\nThere are more files than I can compare, so please look at the others yourself.",
        );
    }
    text + "\nI can't undo this."
}

/// Tells that the end of a command with the network was lost. `paths` are those that it could change.
pub fn command_cut_off(paths: &[String]) -> String {
    let shown: Vec<_> = paths.iter().map(shown_path).collect();
    let place = match shown.is_empty() {
        true => "your workspace".to_owned(),
        false => shown.join(", "),
    };
    format!(
        "A command with the network was cut off when I stopped. It may have changed files in {place}. I can't tell which, so \
         please check them."
    )
}
