//! Counts the disk space that a command takes. A kernel reports the free space, and for most disks the bytes that a
//! process has written. Neither alone shows if it was this command.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfs, statfs, statvfs};
use rustix::process::Pid;

/// Space that must stay free on a disk, in bytes and in files, unless half of the space that was free at the beginning
/// is less.
const LEFT_BYTES: u64 = 256 * 1024 * 1024;
const LEFT_FILES: u64 = 20_000;

/// Number of failed looks in a row that count as a full disk: a process that just begins a program cannot be seen for
/// a moment.
const FAILED_LOOKS_MAX: u32 = 3;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` (linux/magic.h): what is written there is written to no disk.
const IN_MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];

pub(super) struct Disks {
    /// Bytes and files that one command may use up.
    bytes_max: u64,
    files_max: u64,
    /// Bytes that can be taken on each disk until its limit, at the last look.
    pub(super) bytes_left: u64,
    all: Vec<Disk>,
    /// Reports of the first process: bytes that the processes have written that it has reaped.
    reports: UnixStream,
    reaped_bytes: u64,
    /// The number of failed looks in a row.
    failed_looks: u32,
}

struct Disk {
    path: PathBuf,
    /// The free space at the beginning.
    bytes: u64,
    files: u64,
    /// The number of files at the beginning.
    used_files: u64,
    /// True if the kernel counts the bytes that each process writes there.
    is_counted: bool,
}

impl Disks {
    pub(super) fn new<'a>(
        paths: impl Iterator<Item = &'a Path>,
        bytes_max: u64,
        files_max: u64,
        reports: UnixStream,
    ) -> io::Result<Self> {
        reports.set_nonblocking(true)?;
        let all = paths.filter_map(Disk::new).collect();
        let bytes_left = bytes_max;
        Ok(Self {
            bytes_max,
            files_max,
            bytes_left,
            all,
            reports,
            reaped_bytes: 0,
            failed_looks: 0,
        })
    }

    /// Returns true if a disk has too little space left, or has lost too much to these processes of the command.
    pub(super) fn are_full(&mut self, pids: &[Pid]) -> bool {
        self.read_reports();
        let Self { bytes_max, files_max, .. } = *self;
        let mut lost_counted = false;
        self.bytes_left = bytes_max;
        for disk in &self.all {
            let Ok(now) = statvfs(&disk.path) else { continue };
            let lost = disk.bytes.saturating_sub(free(&now));
            self.bytes_left = self.bytes_left.min(bytes_max.saturating_sub(lost));
            let lost_too_much = lost > bytes_max;
            lost_counted |= lost_too_much && disk.is_counted;
            if free(&now) < (disk.bytes / 2).min(LEFT_BYTES)
                || now.f_favail < (disk.files / 2).min(LEFT_FILES)
                || files(&now).saturating_sub(disk.used_files) > files_max
                || lost_too_much && !disk.is_counted
            {
                return true;
            }
        }
        lost_counted && self.is_by_command(pids)
    }

    /// Returns true if this command took the space, or if that stays unknown.
    fn is_by_command(&mut self, pids: &[Pid]) -> bool {
        let (mut sum, mut all_known) = (self.reaped_bytes, true);
        for process in pids {
            match written(*process) {
                Ok(bytes) => {
                    sum += bytes;
                    // Bytes that its children wrote are counted nowhere once they have ended.
                    all_known &= !ignores_children(*process);
                }
                // Unless it has ended, and has been reaped.
                Err(error) => all_known &= is_gone(&error),
            }
        }
        self.failed_looks = if all_known { 0 } else { self.failed_looks + 1 };
        sum > self.bytes_max / 2 || self.failed_looks >= FAILED_LOOKS_MAX
    }

    fn read_reports(&mut self) {
        let mut number = [0; 8];
        while matches!(self.reports.read(&mut number), Ok(8)) {
            self.reaped_bytes = self.reaped_bytes.max(u64::from_ne_bytes(number));
        }
    }
}

impl Disk {
    fn new(path: &Path) -> Option<Self> {
        let (now, kind) = (statvfs(path).ok()?, statfs(path).ok()?);
        let in_memory = IN_MEMORY.contains(&i128::from(kind.f_type));
        Some(Self {
            path: path.to_owned(),
            bytes: free(&now),
            files: now.f_favail,
            used_files: files(&now),
            // Disks without a number of files write what keeps them by themselves; not every kernel counts.
            is_counted: !in_memory
                && now.f_files > 0
                && fs::exists("/proc/self/io").is_ok_and(|is| is),
        })
    }
}

fn free(disk: &StatVfs) -> u64 {
    disk.f_bavail * disk.f_frsize
}

/// Returns the number of files. Some disks estimate the number of further files from the free space.
fn files(disk: &StatVfs) -> u64 {
    disk.f_files.saturating_sub(disk.f_ffree)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Returns true if a process ignores SIGCHLD: the kernel then forgets its children, and what they have written.
fn ignores_children(process: Pid) -> bool {
    let text = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
    let ignored = text
        .unwrap_or_default()
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let child = 1 << (libc::SIGCHLD - 1);
    ignored.is_some_and(|ignored| ignored & child != 0)
}

/// Returns the bytes that a process, and those that it has reaped, have had written to a disk.
fn written(process: Pid) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/io", process.as_raw_nonzero()))?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
    bytes.ok_or_else(|| io::Error::other("this kernel does not measure it"))
}
