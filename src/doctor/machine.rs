//! Checks of the machine: space and state of the disk, the clock, the kernel. What is found is judged by pure functions.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use chrono::{DateTime, Utc};

use super::Finding;
use crate::tasks::schedule;

/// Below this the next days are in danger: a day of messages, files and SQLite's log.
const SPACE_WRONG: u64 = 20 << 20;

/// Below this somebody should make room.
const SPACE_LOW: u64 = 200 << 20;

/// Files that a busy day needs.
const FILES_LOW: u64 = 1_000;

/// Facts about the file system of the home.
#[derive(Clone, Copy, Debug)]
pub struct DiskState {
    /// In bytes.
    pub free: u64,
    /// Files that can still be made. None where the file system has no limit.
    pub files_free: Option<u64>,
    pub is_read_only: bool,
    /// True if a file could be written, or none was tried.
    pub is_writable: bool,
}

/// Looks at the disk of a home. A home that does not exist yet is not made; its next existing folder counts.
pub fn check_disk(home: &Path) -> Finding {
    let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
    let folder = home.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(folder) {
        Ok(stat) => disk_finding(&DiskState {
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
            files_free: (stat.f_files > 0).then_some(stat.f_favail),
            is_read_only: stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
            is_writable: folder != home || can_write(&home),
        }),
        Err(error) => unreadable_finding(folder, &std::io::Error::from(error)),
    }
}

/// Describes a disk that does not tell its state, as one that has failed or was pulled out.
pub fn unreadable_finding(folder: &Path, error: &std::io::Error) -> Finding {
    Finding::wrong("disk", format!("{} cannot be read: {error}", folder.display()))
        .advise("check the disk and that it is mounted")
}

/// Returns true if a file could be written. Follows no link that stands at its name: root looks at homes of others.
fn can_write(home: &Path) -> bool {
    let probe = home.join(".doctor");
    fs::remove_file(&probe).ok();
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe);
    let is_written = made.and_then(|mut file| std::io::Write::write_all(&mut file, &[0; 4096]));
    fs::remove_file(&probe).ok();
    is_written.is_ok()
}

pub fn disk_finding(disk: &DiskState) -> Finding {
    let megabytes = disk.free >> 20;
    if disk.is_read_only {
        return Finding::wrong("disk", "it is read-only")
            .advise("a failing card is mounted read-only: save its files, and read `dmesg`");
    }
    if disk.free < SPACE_WRONG {
        return Finding::wrong("disk", format!("only {megabytes} MB are free")).advise(MAKE_ROOM);
    }
    if !disk.is_writable {
        return Finding::wrong("disk", "this account cannot write to the home").advise(
            "give the home to the account that runs Peacrab (chown), or run this as that account",
        );
    }
    if let Some(files) = disk.files_free.filter(|files| *files < FILES_LOW) {
        return Finding::wrong("disk", format!("only {files} more files can be created"))
            .advise("delete small files of other programs on this disk (`df -i` shows the limit)");
    }
    match disk.free < SPACE_LOW {
        true => Finding::warning("disk", format!("{megabytes} MB are free")).advise(MAKE_ROOM),
        false => Finding::ok("disk", format!("{megabytes} MB are free")),
    }
}

const MAKE_ROOM: &str =
    "make room: old logs (`journalctl --vacuum-size=50M`), caches of packages, downloads";

/// Judges the clock. `newest` is the newest time in the store.
pub fn clock_finding(now: DateTime<Utc>, newest: Option<DateTime<Utc>>) -> Finding {
    let shown = now.format("%Y-%m-%d %H:%M UTC");
    let set = "set the clock (`timedatectl set-ntp true`); jobs wait until it is right, and platforms and models refuse \
               connections by a wrong one";
    if schedule::is_sane(now, newest) {
        return Finding::ok("clock", shown.to_string());
    }
    let words = match newest.filter(|newest| *newest > now) {
        Some(newest) => {
            let newest = newest.format("%Y-%m-%d %H:%M UTC");
            format!("it shows {shown}, but the store was last written at {newest}")
        }
        None => format!("it shows {shown}, which is in the past"),
    };
    Finding::wrong("clock", words).advise(set)
}

/// The oldest kernel with Landlock, of which the sandbox is made.
const KERNEL_OLDEST: (u32, u32) = (5, 13);

/// Looks at the kernel.
pub fn check_kernel() -> Finding {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    kernel_finding(release.trim(), std::env::consts::ARCH)
}

pub fn kernel_finding(release: &str, machine: &str) -> Finding {
    let words = format!("Linux {release} on {machine}");
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    let version = (numbers.next(), numbers.next());
    match version {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < KERNEL_OLDEST => {
            let (major, minor) = KERNEL_OLDEST;
            Finding::warning("kernel", format!("{words} is older than {major}.{minor}"))
                .advise("everything works except the shell; update the system to get the shell")
        }
        _ => Finding::ok("kernel", words),
    }
}
