//! A file system of the command's own, in which nothing else exists: what it may see is bound into an
//! empty one, with a `/tmp`, `/dev` and `/proc` of its own.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, fstat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{fchdir, pivot_root};

use super::CommandLimits;
use super::command::{BYTES_A_FILE, THREADS_EACH};
use super::paths::{DEVICES, VisiblePath, is_of_system};
use crate::sandbox::raw::{self, NO_DEVICES, NO_PROGRAMS, NO_SETUID, READ_ONLY};

/// Where the new root stands until it is one; every system has it.
const STAND: &str = "/tmp";

/// The kernel since which each namespace of processes has its own `pid_max`, which holds for root, too.
pub const PID_MAX: KernelVersion = KernelVersion { major: 6, minor: 14 };

/// A version of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    pub major: u32,
    pub minor: u32,
}

/// Numbers that are given out once only: from then on, all are higher (`RESERVED_PIDS`, kernel/pid.c).
const PIDS_RESERVED: u32 = 300;

/// For folders and links only.
const ROOT_BYTES: u64 = 1024 * 1024;

/// Links that programs expect and that are no files of the machine.
const LINKS: [(&str, &str); 6] = [
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("/tmp", "dev/shm"),
    ("/tmp", "var/tmp"),
];

/// Moves this process, and all that it starts, to a root where there is only this. Its own processes
/// are in `/proc`, where the kernel allows that.
pub(super) fn enter(seen: &[VisiblePath], bounds: &CommandLimits) -> io::Result<()> {
    raw::unshare(libc::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // All is taken before the root covers a part of it.
    let mut taken = Vec::new();
    for it in seen.iter().filter(|it| it.link.is_none()) {
        let tree = it.tree.as_ref().map_or_else(|| take(it), OwnedFd::try_clone)?;
        taken.push((it.path.as_path(), tree));
    }
    for device in DEVICES.iter().map(Path::new).filter(|device| device.exists()) {
        let tree = tree(device)?;
        raw::set_mount(&tree, NO_SETUID | NO_PROGRAMS, true)?;
        taken.push((device, tree));
    }
    let root = temporary(ROOT_BYTES, "0755")?;
    put(&root, Path::new(STAND))?;
    fchdir(&root)?;
    let tmp = temporary(bounds.tmp, "1777")?;
    raw::set_mount(&tmp, NO_SETUID | NO_DEVICES, false)?;
    fs::create_dir("tmp")?;
    put(&tmp, Path::new("tmp"))?;
    for it in seen {
        if let Some(target) = &it.link {
            make_folder(below(&it.path).parent())?;
            symlink(target, below(&it.path))?;
        }
    }
    for (path, tree) in &taken {
        place(below(path), tree)?;
    }
    for (target, link) in LINKS {
        make_folder(Path::new(link).parent())?;
        match symlink(target, link) {
            // What a command may see lies there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    // Refused where parts of the machine's own are covered, as containers have it.
    processes(bounds.processes).ok();
    raw::set_mount(&root, READ_ONLY | NO_SETUID | NO_DEVICES, false)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

/// Takes what the config and the command name, so that it can be lent to another account. The system's own is left.
pub(super) fn take_named(seen: &mut [VisiblePath]) -> io::Result<()> {
    for it in seen.iter_mut().filter(|it| it.link.is_none() && !is_of_system(&it.path)) {
        it.tree = Some(take(it)?);
    }
    Ok(())
}

/// Takes what may be seen as a mount of its own, with the rights that the command has to it.
fn take(it: &VisiblePath) -> io::Result<OwnedFd> {
    let tree = tree(&it.path)?;
    let least = if it.writable { 0 } else { READ_ONLY };
    raw::set_mount(&tree, least | NO_SETUID | NO_DEVICES, true)?;
    Ok(tree)
}

/// `/usr` as seen from the new root before it is one.
fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// A copy of what is mounted at `path` and below.
fn tree(path: &Path) -> io::Result<OwnedFd> {
    let how = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, how)?)
}

fn temporary(bytes: u64, mode: &str) -> io::Result<OwnedFd> {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "size", bytes.to_string())?;
    // An empty file takes memory, too.
    fsconfig_set_string(&fs, "nr_inodes", (bytes / BYTES_A_FILE).to_string())?;
    fsconfig_set_string(&fs, "mode", mode)?;
    fsconfig_create(&fs)?;
    Ok(fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

fn processes(most: u32) -> io::Result<()> {
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    let proc = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    fs::create_dir("proc")?;
    put(&proc, Path::new("proc"))?;
    // On older kernels this number is the whole machine's.
    if fs::read_to_string("proc/sys/kernel/osrelease")
        .is_ok_and(|release| is_since(&release, PID_MAX))
    {
        // Threads have numbers, too.
        let most = PIDS_RESERVED + most.saturating_mul(THREADS_EACH);
        fs::write("proc/sys/kernel/pid_max", most.to_string()).ok();
    }
    raw::set_mount(&proc, READ_ONLY | NO_SETUID | NO_DEVICES | NO_PROGRAMS, false)
}

/// Returns true if a kernel's release, such as `6.18.4-arch1`, is `wanted` or newer.
pub fn is_since(release: &str, wanted: KernelVersion) -> bool {
    let mut parts = release.split(|sign: char| !sign.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
    part().zip(part()).is_some_and(|(major, minor)| KernelVersion { major, minor } >= wanted)
}

/// Puts a tree where the same path is in the new root; makes the way there.
fn place(path: &Path, tree: &OwnedFd) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(tree)?.st_mode).is_dir() {
        make_folder(Some(path))?;
    } else {
        make_folder(path.parent())?;
        if !path.exists() {
            fs::File::create(path)?;
        }
    }
    put(tree, path)
}

fn make_folder(path: Option<&Path>) -> io::Result<()> {
    match path {
        Some(path) if !path.as_os_str().is_empty() => fs::create_dir_all(path),
        _ => Ok(()),
    }
}

fn put(tree: &OwnedFd, at: &Path) -> io::Result<()> {
    Ok(move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}
