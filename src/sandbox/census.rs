//! What a running command and all that it has started take together: memory, processes, the disk.
//! The kernel's own limits hold for each process; what is theirs in sum is counted here.

use std::fs;
use std::path::PathBuf;

use rustix::fs::statvfs;
use rustix::process::Pid;

use super::wire::{Over, Spec};

/// What must be left of a disk in any case: so much, or half of what there was at the beginning.
const DISK_LEFT_BYTES: u64 = 256 * 1024 * 1024;

/// Processes that are looked at in one go; more are too many anyhow.
const LOOKED_AT_MAX: usize = 4_096;

pub(super) struct Census {
    first: Pid,
    memory_max: u64,
    processes_max: usize,
    disk_max: u64,
    /// What may be written to, and how many bytes were free there at the beginning.
    disks: Vec<(PathBuf, u64)>,
}

impl Census {
    pub(super) fn new(first: Pid, spec: &Spec) -> Self {
        let disk = |path: &PathBuf| Some((path.clone(), free(path)?));
        Self {
            first,
            memory_max: spec.bounds.memory,
            processes_max: spec.bounds.processes as usize,
            disk_max: spec.bounds.disk,
            disks: spec.write.iter().filter_map(disk).collect(),
        }
    }

    /// What there is too much of.
    pub(super) fn look(&self) -> Option<Over> {
        let all = self.everybody();
        if all.len() > self.processes_max {
            return Some(Over::Processes);
        }
        // The first figure is quickly had, and counts twice what is shared.
        let sum = |of: fn(Pid) -> u64| all.iter().map(|pid| of(*pid)).sum::<u64>();
        if sum(resident) > self.memory_max && sum(own) > self.memory_max {
            return Some(Over::Memory);
        }
        self.is_disk_full(&all).then_some(Over::Disk)
    }

    /// Whether a disk has too little left, or has lost too much by this command.
    fn is_disk_full(&self, all: &[Pid]) -> bool {
        let now = self.disks.iter().filter_map(|(path, before)| Some((*before, free(path)?)));
        let now: Vec<(u64, u64)> = now.collect();
        let floor = |before: u64| (before / 2).min(DISK_LEFT_BYTES);
        let lost = now.iter().map(|(before, now)| before.saturating_sub(*now)).max();
        now.iter().any(|(before, now)| *now < floor(*before))
            || lost.is_some_and(|lost| lost > self.disk_max) && self.may_have_written(all)
    }

    /// Whether it may have been this command that took so much of the disk, and not others.
    fn may_have_written(&self, all: &[Pid]) -> bool {
        let inside = all.iter().filter(|pid| **pid != self.first);
        let known: Vec<u64> = inside.filter_map(|pid| written(*pid)).collect();
        known.is_empty() || known.iter().sum::<u64>() > self.disk_max / 2
    }

    fn everybody(&self) -> Vec<Pid> {
        let mut found = vec![self.first];
        let mut at = 0;
        while at < found.len() && found.len() < LOOKED_AT_MAX {
            found.extend(children(found[at]));
            at += 1;
        }
        found
    }
}

/// Those whom a process has started, and whom it has inherited.
pub(super) fn children(of: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", of.as_raw_nonzero())) else {
        return Vec::new();
    };
    let lists = threads.flatten().filter_map(|thread| {
        let list = fs::read_to_string(thread.path().join("children")).ok()?;
        Some(list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
    });
    lists.flatten().filter_map(Pid::from_raw).collect()
}

/// Bytes in memory, those that are shared with others too.
fn resident(process: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/statm", process.as_raw_nonzero()));
    let pages = text.ok().and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}

/// Bytes that would be free without it: what it shares is divided, files do not count.
fn own(process: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.as_raw_nonzero()));
    let Ok(text) = text else { return resident(process) };
    let counted = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let kilobytes: u64 = rest.split_whitespace().next()?.parse().ok()?;
        matches!(name, "Pss_Anon" | "Pss_Shmem" | "SwapPss").then_some(kilobytes * 1024)
    });
    counted.sum()
}

/// Bytes that it, and those for whose end it has waited, have had written to a disk.
fn written(process: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/io", process.as_raw_nonzero())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

fn free(path: &PathBuf) -> Option<u64> {
    let disk = statvfs(path).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}
