//! A root file system of the command's own: the visible paths are bind-mounted into an empty one, with a
//! `/tmp`, `/dev` and `/proc` of its own. Nothing else exists in it.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, fstat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{fchdir, pivot_root};

use super::CommandLimits;
use super::command::{BYTES_A_FILE, THREADS_EACH};
use super::paths::{DEVICES, VisiblePath, is_of_system};
use crate::replies;
use crate::sandbox::raw::{self, NO_DEVICES, NO_PROGRAMS, NO_SETUID, READ_ONLY};

/// The mount point of the new root until it is the root. Every system has it.
const STAND: &str = "/tmp";

/// The first kernel in which each PID namespace has its own `pid_max`, which holds for root, too.
pub const PID_MAX: KernelVersion = KernelVersion { major: 6, minor: 14 };

/// A version of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    pub major: u32,
    pub minor: u32,
}

/// Process numbers that the kernel gives out only once: all later ones are higher (`RESERVED_PIDS`, kernel/pid.c).
const PIDS_RESERVED: u32 = 300;

/// Maximum size of the root itself, in bytes. It has only folders and links.
const ROOT_BYTES: u64 = 1024 * 1024;

/// Links that programs expect, beside the files of the machine.
const LINKS: [(&str, &str); 6] = [
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("/tmp", "dev/shm"),
    ("/tmp", "var/tmp"),
];

/// The reason why a root could not be made.
pub(super) struct RootError {
    /// The path that could not be shown in it. None if the machine does not allow such a root.
    pub(super) path: Option<PathBuf>,
    cause: io::Error,
}

impl RootError {
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |cause| Self { path: Some(path.to_owned()), cause }
    }
}

impl From<io::Error> for RootError {
    fn from(cause: io::Error) -> Self {
        Self { path: None, cause }
    }
}

impl From<Errno> for RootError {
    fn from(cause: Errno) -> Self {
        io::Error::from(cause).into()
    }
}

impl fmt::Display for RootError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => out.write_str(&replies::cannot_show_path(path, &self.cause)),
            None => write!(out, "{}", self.cause),
        }
    }
}

/// A mount of a visible path or of a device, which is not at its place yet.
struct Taken<'a> {
    path: &'a Path,
    tree: OwnedFd,
}

/// Moves this process, and all that it starts, to a root with only these paths. `/proc` shows its own
/// processes, where the kernel allows that. After an error, the process sees the machine as before.
pub(super) fn enter(visible: &[VisiblePath], bounds: &CommandLimits) -> Result<(), RootError> {
    raw::unshare(libc::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // All mounts are made before the root covers some of the paths.
    let mut taken = Vec::new();
    for it in visible.iter().filter(|it| it.link.is_none()) {
        let tree = it.tree.as_ref().map_or_else(|| take(it), OwnedFd::try_clone)?;
        taken.push(Taken { path: &it.path, tree });
    }
    for device in DEVICES.iter().map(Path::new).filter(|device| device.exists()) {
        let tree = tree(device)?;
        raw::set_mount(&tree, NO_SETUID | NO_PROGRAMS, true)?;
        taken.push(Taken { path: device, tree });
    }
    let root = new_tmpfs(ROOT_BYTES, "0755")?;
    move_tree(&root, Path::new(STAND))?;
    if let Err(error) = build(&root, visible, &taken, bounds) {
        // It covers a part of the machine.
        std::env::set_current_dir("/").ok();
        unmount(STAND, UnmountFlags::DETACH).ok();
        return Err(error);
    }
    unmount(".", UnmountFlags::DETACH)?;
    Ok(std::env::set_current_dir("/")?)
}

/// Builds the new root at its mount point, and makes it the root.
fn build(
    root: &OwnedFd,
    visible: &[VisiblePath],
    taken: &[Taken<'_>],
    bounds: &CommandLimits,
) -> Result<(), RootError> {
    fchdir(root)?;
    let tmp = new_tmpfs(bounds.tmp, "1777")?;
    raw::set_mount(&tmp, NO_SETUID | NO_DEVICES, false)?;
    fs::create_dir("tmp")?;
    move_tree(&tmp, Path::new("tmp"))?;
    for it in visible {
        if let Some(target) = &it.link {
            let made = make_folder(below(&it.path).parent());
            let linked = made.and_then(|()| symlink(target, below(&it.path)));
            linked.map_err(RootError::at(&it.path))?;
        }
    }
    for Taken { path, tree } in taken {
        mount_at(below(path), tree).map_err(RootError::at(path))?;
    }
    for (target, link) in LINKS {
        make_folder(Path::new(link).parent())?;
        match symlink(target, link) {
            // A visible path is there already.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    // Refused where parts of the machine's `/proc` are covered, as in containers.
    mount_proc(bounds.processes).ok();
    raw::set_mount(root, READ_ONLY | NO_SETUID | NO_DEVICES, false)?;
    Ok(pivot_root(".", ".")?)
}

/// Makes mounts of the paths that the config and the command name, so that they can be ID-mapped for another account.
pub(super) fn detach_named_mounts(visible: &mut [VisiblePath]) -> io::Result<()> {
    for it in visible.iter_mut().filter(|it| it.link.is_none() && !is_of_system(&it.path)) {
        it.tree = Some(take(it)?);
    }
    Ok(())
}

/// Makes a detached mount of a visible path, with the rights that the command has to it.
fn take(it: &VisiblePath) -> io::Result<OwnedFd> {
    let tree = tree(&it.path)?;
    let least = if it.writable { 0 } else { READ_ONLY };
    raw::set_mount(&tree, least | NO_SETUID | NO_DEVICES, true)?;
    Ok(tree)
}

/// Returns a path as seen from the new root before it is the root: `usr` for `/usr`.
fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Returns a detached copy of the mounts at `path` and below.
fn tree(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

fn new_tmpfs(bytes: u64, mode: &str) -> io::Result<OwnedFd> {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "size", bytes.to_string())?;
    // An empty file takes memory, too.
    fsconfig_set_string(&fs, "nr_inodes", (bytes / BYTES_A_FILE).to_string())?;
    fsconfig_set_string(&fs, "mode", mode)?;
    fsconfig_create(&fs)?;
    Ok(fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

fn mount_proc(most: u32) -> io::Result<()> {
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    let proc = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    fs::create_dir("proc")?;
    move_tree(&proc, Path::new("proc"))?;
    // On older kernels this number is the whole machine's.
    if fs::read_to_string("proc/sys/kernel/osrelease")
        .is_ok_and(|release| is_at_least(&release, PID_MAX))
    {
        // Threads have numbers, too.
        let most = PIDS_RESERVED + most.saturating_mul(THREADS_EACH);
        fs::write("proc/sys/kernel/pid_max", most.to_string()).ok();
    }
    raw::set_mount(&proc, READ_ONLY | NO_SETUID | NO_DEVICES | NO_PROGRAMS, false)
}

/// Returns true if a kernel's release, such as `6.18.4-arch1`, is `wanted` or newer.
pub fn is_at_least(release: &str, wanted: KernelVersion) -> bool {
    let mut parts = release.split(|sign: char| !sign.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
    part().zip(part()).is_some_and(|(major, minor)| KernelVersion { major, minor } >= wanted)
}

/// Mounts a tree at a path of the new root, and makes the folders above it.
fn mount_at(path: &Path, tree: &OwnedFd) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(tree)?.st_mode).is_dir() {
        make_folder(Some(path))?;
    } else {
        make_folder(path.parent())?;
        if !path.exists() {
            fs::File::create(path)?;
        }
    }
    move_tree(tree, path)
}

fn make_folder(path: Option<&Path>) -> io::Result<()> {
    match path {
        Some(path) if !path.as_os_str().is_empty() => fs::create_dir_all(path),
        _ => Ok(()),
    }
}

fn move_tree(tree: &OwnedFd, at: &Path) -> io::Result<()> {
    Ok(move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}
