//! The processes of a command, as /proc shows them (proc(5)).

use std::fs;

use rustix::process::{Pid, getpid};

/// Maximum number of processes that one search looks at. More are too many anyway.
const LOOKED_AT_MAX: usize = 4_096;

/// Maximum number of looks at a process: if its parent ends during a look, it gets another one.
const TRIES_MAX: usize = 3;

/// The kernel's line about a process (/proc/PID/stat).
pub(super) struct ProcessStat {
    pub(super) parent: Option<Pid>,
    /// The number of its process group.
    pub(super) group: i32,
    /// Its CPU time, in the kernel and outside, in clock ticks.
    pub(super) cpu_ticks: u64,
}

/// Returns the processes of a command with its first one. This process is the guard.
pub(super) fn of_command(first: Pid) -> Vec<Pid> {
    match fs::exists(format!("/proc/{}", first.as_raw_nonzero())) {
        // Where an account sees only whom it could trace (`hidepid`), it does not see our own.
        Ok(false) => by_parents(first),
        _ => descendants(getpid()),
    }
}

/// Returns true if a process was started by `first`, or by one that was.
pub(super) fn is_below(process: Pid, first: Pid) -> bool {
    (0..TRIES_MAX).any(|_| {
        let parents = std::iter::successors(Some(process), |pid| stat(*pid)?.parent);
        parents.skip(1).take(LOOKED_AT_MAX).any(|parent| parent == first)
    })
}

/// Reads the kernel's line about a process. None if it has ended.
pub(super) fn stat(process: Pid) -> Option<ProcessStat> {
    let text = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // The name before it may contain anything.
    let mut fields = text.rsplit_once(") ")?.1.split(' ').skip(1);
    let (parent, group) = (fields.next()?, fields.next()?.parse().ok()?);
    // The fields 14 and 15 (proc(5)); the group is the fifth.
    let cpu_ticks = fields.skip(8).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(ProcessStat { parent: pid(parent), group, cpu_ticks })
}

/// Returns the process that a thread belongs to.
pub(super) fn process_of(thread: Pid) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{}/status", thread.as_raw_nonzero())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:")).and_then(|number| pid(number.trim()))
}

/// Returns the processes that a process has started or inherited, and those that these have started.
pub fn descendants(of: Pid) -> Vec<Pid> {
    let mut found = vec![of];
    let mut at = 0;
    while at < found.len() && found.len() < LOOKED_AT_MAX {
        let Some(children) = children(found[at]) else { return by_parents(of) };
        found.extend(children);
        at += 1;
    }
    found.split_off(1)
}

/// Returns the children of a process. None if this kernel has no such list.
fn children(of: Pid) -> Option<Vec<Pid>> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", of.as_raw_nonzero())) else {
        return Some(Vec::new());
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(list.split_whitespace().filter_map(pid)),
            Err(_) if thread.path().exists() => return None,
            // The thread has just ended.
            Err(_) => {}
        }
    }
    Some(found)
}

/// Returns the [`descendants`] by the parents of all processes of the machine. Slower, but needs no list of
/// children.
pub fn by_parents(of: Pid) -> Vec<Pid> {
    let of_all = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let name = pid(entry.file_name().to_str()?)?;
        Some((name, stat(name)?.parent?))
    });
    let of_all: Vec<(Pid, Pid)> = of_all.collect();
    let (mut found, mut at) = (vec![of], 0);
    while at < found.len() {
        let parent = found[at];
        found.extend(of_all.iter().filter(|one| one.1 == parent).map(|one| one.0));
        at += 1;
    }
    found.split_off(1)
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}
