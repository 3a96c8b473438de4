//! Control groups (cgroup v2), where a part of their tree was delegated to this program: the kernel then limits the
//! memory and the number of all processes of a command together, exactly. Elsewhere `accounting` counts.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{getxattr, statfs};
use rustix::process::{geteuid, getpid};

use super::CommandLimits;
use super::command::THREADS_EACH;

/// The mount point of the tree on every system.
const TREE: &str = "/sys/fs/cgroup";

/// `CGROUP2_SUPER_MAGIC` (linux/magic.h): in the older version, each controller has a tree of its own.
const VERSION_2: i128 = 0x6367_7270;

/// The group of the daemon itself: one that has groups below it has no processes of its own (cgroups(7)).
const DAEMON: &str = "daemon";

/// Prefix of the group of a command, which is beside the daemon's.
const COMMAND: &str = "command-";

/// The controllers that are used, each where it was delegated.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// Attributes by which systemd marks a group that it has delegated, for root, who could write everywhere.
const MARKS: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// Number of attempts to remove a group: it stays busy for some moments after the end of its last process.
const REMOVALS: usize = 200;
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);

/// Takes over the group in which this process was started, if it was delegated and no other process is in it. To be
/// called once by a daemon at its start. Returns true if commands get groups of their own from now on.
pub fn adopt_cgroup() -> bool {
    let adopted = own_group().is_some_and(|own| match delegated(&own) {
        // Started again in place, or adopted before.
        Some(_) => true,
        None => is_delegated(&own) && split(&own).is_ok(),
    });
    if adopted && let Some(top) = own_group().as_deref().and_then(Path::parent) {
        // Commands that were killed with their guards have left these.
        for entry in fs::read_dir(top).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(COMMAND) {
                fs::remove_dir(entry.path()).ok();
            }
        }
    }
    adopted
}

/// Returns the group of this process.
fn own_group() -> Option<PathBuf> {
    if i128::from(statfs(TREE).ok()?.f_type) != VERSION_2 {
        return None;
    }
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(TREE).join(path))
}

/// Returns the parent of the commands' groups, if `own` is a daemon's.
fn delegated(own: &Path) -> Option<&Path> {
    let top = own.parent().filter(|_| own.file_name().is_some_and(|name| name == DAEMON))?;
    (!named_controllers(&top.join("cgroup.subtree_control")).is_empty()).then_some(top)
}

/// Returns true if this process is alone in the group and may divide it.
fn is_delegated(own: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let procs = fs::read_to_string(own.join("cgroup.procs")).unwrap_or_default();
    let is_alone = procs.trim() == getpid().as_raw_nonzero().to_string();
    let is_ours = match geteuid().is_root() {
        true => MARKS.iter().any(|mark| {
            let mut value = [0; 8];
            getxattr(own, *mark, &mut value[..]).is_ok_and(|bytes| value[..bytes] == *b"1")
        }),
        false => fs::metadata(own.join("cgroup.procs"))
            .is_ok_and(|file| file.uid() == geteuid().as_raw()),
    };
    is_alone && is_ours && !named_controllers(&own.join("cgroup.controllers")).is_empty()
}

/// Returns the used controllers that a file of the kernel names.
fn named_controllers(file: &Path) -> Vec<&'static str> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    CONTROLLERS.into_iter().filter(|name| words.contains(name)).collect()
}

/// Moves this process into a group below, so that there can be others. On an error, all stays as it was.
fn split(own: &Path) -> io::Result<()> {
    let below = own.join(DAEMON);
    fs::create_dir(&below)?;
    let moved = write(&below.join("cgroup.procs"), "0").and_then(|()| {
        let mut done = Err(io::ErrorKind::NotFound.into());
        for name in named_controllers(&own.join("cgroup.controllers")) {
            let enabled = write(&own.join("cgroup.subtree_control"), &format!("+{name}"));
            done = done.or(enabled);
        }
        done
    });
    if moved.is_err() {
        write(&own.join("cgroup.procs"), "0").ok();
        fs::remove_dir(&below).ok();
    }
    moved
}

/// Writes a setting, by one write to an existing file, as the kernel requires.
fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// The group of one command.
pub(super) struct CommandGroup {
    path: PathBuf,
    /// True if its memory is limited.
    pub(super) memory: bool,
}

impl CommandGroup {
    /// Makes a group beside the daemon's and moves this process into it, which leaves it again when it has started the
    /// command. None where nothing was delegated.
    pub(super) fn enter_new(bounds: &CommandLimits) -> Option<Self> {
        let own = own_group()?;
        let path = delegated(&own)?.join(format!("{COMMAND}{:016x}", fastrand::u64(..)));
        fs::create_dir(&path).ok()?;
        let set = |name: &str, value: String| write(&path.join(name), &value).is_ok();
        let memory = set("memory.max", bounds.memory.to_string());
        // The memory's maximum does not limit swap. Not every kernel has swap.
        set("memory.swap.max", "0".to_owned());
        // The kernel kills all processes together, because half a command is of no use.
        set("memory.oom.group", "1".to_owned());
        // It counts threads; one more is the first process, which is ours.
        let tasks = bounds.processes.saturating_mul(THREADS_EACH).saturating_add(1);
        set("pids.max", tasks.to_string());
        let group = Self { path, memory };
        if group.enter().is_err() {
            group.remove();
            return None;
        }
        Some(group)
    }

    /// Moves this process into it, with all that it starts.
    fn enter(&self) -> io::Result<()> {
        write(&self.path.join("cgroup.procs"), "0")
    }

    /// Moves this process back to the daemon's group; those that it has started stay.
    pub(super) fn leave(&self) -> io::Result<()> {
        write(&self.path.with_file_name(DAEMON).join("cgroup.procs"), "0")
    }

    /// Returns true if the kernel has ended it because its memory was used up.
    pub(super) fn is_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        let mut counts = events.lines().filter_map(|line| line.strip_prefix("oom_kill "));
        counts.any(|count| count.trim() != "0")
    }

    /// Kills all that are left in it.
    pub(super) fn kill(&self) {
        write(&self.path.join("cgroup.kill"), "1").ok();
    }

    pub(super) fn remove(self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => sleep(REMOVAL_PAUSE),
                _ => return,
            }
        }
    }
}
