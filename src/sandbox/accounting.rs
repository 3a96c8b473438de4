//! Counts the number, the memory and the disk space of all processes of a running command. The kernel's own limits hold
//! for each process; the sums are counted here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Pid, Uid};

use super::command::THREADS_EACH;
use super::disk::Disks;
use super::limits;
use super::processes;
use super::scratch::Scratch;
use super::wire::{ExceededLimit, SandboxSpec};

/// Kernel memory that a socket can hold: `net.core.wmem_default` (208 KB), and a message more.
const SOCKET_BYTES: u64 = 256 * 1024;

/// Kernel memory that a pipe can hold (pipe(7)). No command can enlarge it; once a user's pipes hold too much together
/// (`pipe-user-pages-soft`), it is two pages.
const PIPE_BYTES: u64 = 64 * 1024;
const PIPES_BYTES_SOFT: u64 = 64 * 1024 * 1024;
const SMALL_PIPE_BYTES: u64 = 8 * 1024;

/// The kernel's names in /proc/PID/maps for shared memory that belongs to no disk. It stays as large as it was made,
/// whatever part a process still shows.
const SHARED_NAMES: [&str; 5] =
    ["/dev/zero (deleted)", "[anon_shmem:", "/memfd:", "/SYSV", "/dev/shm/"];

/// Bytes by which a command's processes together can exceed their limit for a moment, for each core of the machine: that
/// much is taken between two looks. Measured on a machine with two. It holds as long as the machine lets the guard run.
pub const OVERSHOOT_PER_CORE: u64 = 128 * 1024 * 1024;

/// Approximate bytes that a command can take in a millisecond for each core.
const FILLED_EACH_MS: u64 = 1024 * 1024;

/// The pause between two looks, by what is left until the limits.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The maximum pause once the command has used no CPU time between two looks, as an MCP server that waits.
const IDLE_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Memory of the machine that must stay free: these bytes, or this share of all, or half of the memory that was free
/// at the beginning, whichever is least. Some memory that the kernel keeps for a process is counted nowhere.
const LEFT_BYTES: u64 = 128 * 1024 * 1024;
const LEFT_SHARE: u64 = 16;

pub(super) struct ResourceAccounting<'a> {
    first: Pid,
    spec: &'a SandboxSpec,
    scratch: &'a Scratch,
    /// True if the kernel does not limit the sum of its memory.
    counts_memory: bool,
    disks: Disks,
    /// Bytes of memory that must stay free.
    free_min: u64,
    /// Bytes of memory between the command's use and its limit, at the last look.
    memory_left: u64,
    /// Bytes that it can take in a millisecond.
    filled_each_ms: u64,
    /// CPU time of its processes at the last look, in clock ticks.
    cpu_ticks: u64,
    /// True if it used no CPU time between the last two looks.
    is_idle: bool,
}

/// The kernel's figures for a process.
#[derive(Default)]
struct ProcessUsage {
    threads: usize,
    /// Bytes in memory or in swap, including those that are shared with others.
    resident: u64,
    /// Bytes of its page tables.
    tables: u64,
}

impl<'a> ResourceAccounting<'a> {
    /// Creates the accounting. `write_reports`: see [`Disks`].
    pub(super) fn new(
        first: Pid,
        spec: &'a SandboxSpec,
        scratch: &'a Scratch,
        write_reports: UnixStream,
        counts_memory: bool,
    ) -> io::Result<Self> {
        let places = spec.write.iter().map(|path| &**path).chain([scratch.path()]);
        let disks = Disks::new(places, spec.bounds.disk, spec.bounds.files, write_reports)?;
        let [total, free] = memory();
        let free_min = LEFT_BYTES.min(total / LEFT_SHARE).min(free / 2);
        let memory_left = spec.bounds.memory;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let filled_each_ms = FILLED_EACH_MS * cores;
        Ok(Self {
            first,
            spec,
            scratch,
            counts_memory,
            disks,
            free_min,
            memory_left,
            filled_each_ms,
            cpu_ticks: 0,
            is_idle: false,
        })
    }

    /// Returns the time until the next look: the sooner the command could reach a limit, the shorter.
    pub(super) fn pause(&self) -> Duration {
        let to_fill = |bytes: u64| Duration::from_millis(bytes / self.filled_each_ms);
        // Others write to the disks as well, so little space alone shortens no pause.
        let pause_max = match self.is_idle {
            true => to_fill(self.disks.bytes_left).clamp(PAUSE_MAX, IDLE_PAUSE_MAX),
            false => PAUSE_MAX,
        };
        match self.counts_memory {
            true => to_fill(self.memory_left).clamp(PAUSE_MIN, pause_max),
            false => pause_max,
        }
    }

    /// Returns the limit that is exceeded, if any.
    pub(super) fn look(&mut self) -> Option<ExceededLimit> {
        let mut pids = processes::of_command(self.first);
        let bounds = &self.spec.bounds;
        let most = bounds.processes as usize;
        if pids.len() > most {
            return Some(ExceededLimit::Processes);
        }
        let all: Vec<ProcessUsage> = pids.iter().map(|pid| read_usage(*pid)).collect();
        if all.iter().map(|process| process.threads).sum::<usize>() > most * THREADS_EACH as usize {
            return Some(ExceededLimit::Processes);
        }
        // The first process is ours, and no command can reach its files.
        pids.retain(|pid| *pid != self.first);
        let takes_more = self.counts_memory && {
            let quick = quick_sum(&pids, &all);
            self.memory_left = bounds.memory.saturating_sub(quick);
            takes_more(bounds.memory, quick, &pids, &all)
        };
        if memory()[1] < self.free_min || takes_more {
            return Some(ExceededLimit::Memory);
        }
        let is_full = self.scratch.bytes(bounds.tmp) > bounds.tmp || self.disks.are_full(&pids);
        let cpu_ticks =
            pids.iter().filter_map(|pid| processes::stat(*pid)).map(|it| it.cpu_ticks).sum();
        self.is_idle = cpu_ticks == self.cpu_ticks;
        self.cpu_ticks = cpu_ticks;
        is_full.then_some(ExceededLimit::Disk)
    }
}

/// Returns true if the processes take more than `most` bytes. The quick figures count too much (shared memory twice,
/// each open file as a socket), so exact ones are taken only if those exceed the limit.
fn takes_more(most: u64, resident: u64, pids: &[Pid], all: &[ProcessUsage]) -> bool {
    if resident + pids.iter().map(|pid| count_open_files(*pid)).sum::<u64>() * SOCKET_BYTES <= most
    {
        return false;
    }
    let tables: u64 = all.iter().map(|process| process.tables).sum();
    let shared = shared(pids);
    // Sockets in transit within others are left out; the kernel lets a user have as many of those as one
    // process may have files open (unix(7)).
    let buffers = buffers(pids);
    let own =
        pids.iter().map(|pid| own_bytes(*pid)).fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    resident + buffers > most && tables + own.0 + own.1.max(shared) + buffers > most
}

/// Returns an upper bound of the bytes that the processes take in memory, apart from buffers.
fn quick_sum(pids: &[Pid], all: &[ProcessUsage]) -> u64 {
    shared(pids) + all.iter().map(|process| process.tables + process.resident).sum::<u64>()
}

/// Returns the bytes of shared memory that belongs to no disk, each object counted once and whole.
fn shared(pids: &[Pid]) -> u64 {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for pid in pids {
        let maps = fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero()));
        for line in maps.unwrap_or_default().lines() {
            if let Some((file, end)) = shared_mapping(line) {
                let most = found.entry(file).or_default();
                *most = end.max(*most);
            }
        }
    }
    found.values().sum()
}

/// Parses a line of /proc/PID/maps (proc(5)). Returns the shared memory, and the offset in it where the mapping ends.
pub fn shared_mapping(line: &str) -> Option<(String, u64)> {
    let mut fields = line.splitn(6, ' ');
    let (addresses, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let (device, inode) = (fields.next()?, fields.next()?);
    let name = fields.next()?.trim_start();
    if !rights.ends_with('s') || !SHARED_NAMES.iter().any(|known| name.starts_with(known)) {
        return None;
    }
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (from, to) = addresses.split_once('-')?;
    let length = number(to)?.checked_sub(number(from)?)?;
    Some((format!("{device} {inode}"), number(offset)?.saturating_add(length)))
}

fn read_usage(process: Pid) -> ProcessUsage {
    let text = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
    let mut found = ProcessUsage::default();
    for line in text.unwrap_or_default().lines() {
        match line.split_once(':') {
            Some(("Threads", number)) => found.threads = number.trim().parse().unwrap_or(1),
            Some(("VmRSS" | "VmSwap", size)) => found.resident += bytes(size),
            Some(("VmPTE", size)) => found.tables = bytes(size),
            _ => {}
        }
    }
    found
}

/// Parses a size such as `   1234 kB`.
fn bytes(size: &str) -> u64 {
    let kilobytes = size.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// Returns the bytes of a process, of its own and of shared memory. Shared bytes are divided among those that share
/// them; files do not count.
fn own_bytes(pid: Pid) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero()));
    let Ok(text) = text else { return (read_usage(pid).resident, 0) };
    let sum = |names: &[&str]| {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|line| names.contains(&line.0)).map(|line| bytes(line.1)).sum()
    };
    (sum(&["Pss_Anon", "SwapPss"]), sum(&["Pss_Shmem"]))
}

/// Returns the number of open files of a process. If that cannot be seen, the maximum that it may open.
fn count_open_files(process: Pid) -> u64 {
    let folder = format!("/proc/{}/fd", process.as_raw_nonzero());
    // Since Linux 6.2 this is the size of the folder.
    match fs::metadata(&folder) {
        Ok(found) if found.size() > 0 => return found.size(),
        Err(_) => return 0,
        Ok(_) => {}
    }
    match fs::read_dir(&folder) {
        Ok(files) => files.count() as u64,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => limits::FILES_MAX,
        Err(_) => 0,
    }
}

/// Returns the maximum bytes that the kernel holds for sockets and pipes, each counted once.
fn buffers(pids: &[Pid]) -> u64 {
    let (mut sockets, mut pipes, mut unknown) = (BTreeSet::new(), BTreeSet::new(), 0);
    for process in pids {
        let Ok(files) = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())) else {
            unknown += count_open_files(*process);
            continue;
        };
        for target in files.flatten().filter_map(|file| fs::read_link(file.path()).ok()) {
            let name = target.to_string_lossy();
            if name.starts_with("socket:") {
                sockets.insert(name.into_owned());
            } else if name.starts_with("pipe:") {
                pipes.insert(name.into_owned());
            }
        }
    }
    let pipes = pipes.len() as u64;
    let in_pipes = (pipes * PIPE_BYTES).min(PIPES_BYTES_SOFT + pipes * SMALL_PIPE_BYTES);
    (sockets.len() as u64 + unknown) * SOCKET_BYTES + in_pipes
}

/// Returns the machine's memory in bytes: total and available.
fn memory() -> [u64; 2] {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    ["MemTotal:", "MemAvailable:"].map(|name| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        // A machine that does not report it counts as large enough.
        found.map_or(u64::MAX, bytes)
    })
}

/// Returns the number of processes and threads of an account on this machine.
pub fn tasks_of(user: Uid) -> u64 {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = all.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let real: u32 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
        (real == user.as_raw()).then(|| field("Threads:")?.trim().parse::<u64>().ok())?
    });
    threads.sum()
}
