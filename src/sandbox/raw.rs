//! The few system calls that no crate wraps safely: each is one line around `libc`, made by a process of ours
//! that has a single thread.

#![expect(unsafe_code, reason = "fork, unshare and others have no safe form in rustix")]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::Pid;

/// Attributes of mounts (mount_setattr(2)).
pub(super) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(super) const NO_SETUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(super) const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
pub(super) const NO_PROGRAMS: u64 = libc::MOUNT_ATTR_NOEXEC;

fn checked(result: impl Into<i64>) -> io::Result<i64> {
    match result.into() {
        -1 => Err(io::Error::last_os_error()),
        done => Ok(done),
    }
}

/// Forks into these new namespaces. Returns None in the child.
pub(super) fn fork_into(namespaces: c_int) -> io::Result<Option<Pid>> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: this process has one thread, so nothing that the child needs is held by another. Without a stack the
    // child goes on with a copy of this one (clone(2)); the other arguments are not looked at with these flags.
    let pid = checked(unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0, 0, 0) })?;
    Ok(i32::try_from(pid).ok().and_then(Pid::from_raw))
}

pub(super) fn unshare(namespaces: c_int) -> io::Result<()> {
    // SAFETY: no flag is given that would take open files from under anybody.
    checked(unsafe { libc::unshare(namespaces) }).map(drop)
}

/// Closes everything but the standard three: whoever started the daemon may have left files open.
pub(super) fn close_inherited_files() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: called first of all, when no value of ours holds such a number. On a kernel without it,
    // what was left open stays so.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
}

/// Sets attributes of a mount, and of those below it if `deep`.
pub(super) fn set_mount(tree: impl AsFd, attributes: u64, deep: bool) -> io::Result<()> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut wanted: libc::mount_attr = unsafe { std::mem::zeroed() };
    wanted.attr_set = attributes;
    change_mount(tree, wanted, deep)
}

/// ID-maps a detached mount and those below it: the files of users of the machine then belong to the users to whom
/// this user namespace maps them.
pub(super) fn id_map_mount(tree: impl AsFd, users: impl AsFd) -> io::Result<()> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut wanted: libc::mount_attr = unsafe { std::mem::zeroed() };
    wanted.attr_set = libc::MOUNT_ATTR_IDMAP;
    wanted.userns_fd = u64::try_from(users.as_fd().as_raw_fd()).map_err(io::Error::other)?;
    change_mount(tree, wanted, true)
}

fn change_mount(tree: impl AsFd, wanted: libc::mount_attr, deep: bool) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if deep { libc::AT_RECURSIVE } else { 0 };
    let tree = tree.as_fd().as_raw_fd();
    // SAFETY: the pointers are to values that live here, and the size is theirs.
    let done = unsafe {
        let (path, size) = (c"".as_ptr(), size_of::<libc::mount_attr>());
        libc::syscall(libc::SYS_mount_setattr, tree, path, flags, &raw const wanted, size)
    };
    checked(done).map(drop)
}

/// Switches on the loopback device of a new network namespace, so that a command can talk to itself.
pub(super) fn loopback_up() -> io::Result<()> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = libc::c_char::from_ne_bytes([*byte]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: the pointer is to a value that lives here, of the type that this request wants.
    let done =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    checked(done).map(drop)
}

/// Asks the kernel for its version of Landlock (landlock_create_ruleset(2), LANDLOCK_CREATE_RULESET_VERSION).
pub(super) fn landlock_version() -> io::Result<i64> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag it takes no pointer, and makes nothing.
    let done = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    checked(done)
}

/// Returns true if this process may have itself traced, which must not be.
pub(super) fn may_be_traced() -> bool {
    // SAFETY: PTRACE_TRACEME takes no pointers.
    unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0 }
}

/// Returns the bytes that processes have had written to a disk that this process has reaped.
pub(super) fn bytes_written_by_reaped() -> u64 {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives here. It cannot fail with these arguments.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    // In blocks of 512 bytes, whatever the disk's are.
    u64::try_from(usage.ru_oublock).unwrap_or_default() * 512
}

/// Installs a filter whose calls with the action SECCOMP_RET_USER_NOTIF wait for an answer by the returned listener
/// (seccomp_unotify(2)).
pub(super) fn install_listener(program: &[seccompiler::sock_filter]) -> io::Result<OwnedFd> {
    let len = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel copies the program, which lives here, and whose parts are laid out as its own.
    let done = unsafe {
        let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program)
    };
    let number = RawFd::try_from(checked(done)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Receives the next waiting call.
pub(super) fn next_call(listener: &OwnedFd) -> io::Result<libc::seccomp_notif> {
    // SAFETY: all zeros is a valid value of this plain structure, and what the kernel asks for.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    let (listener, request) = (listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV);
    // SAFETY: the pointer is to a value that lives here, of the type that this request wants.
    checked(unsafe { libc::ioctl(listener, request, &raw mut call) })?;
    Ok(call)
}

/// Returns true if the caller still waits.
pub(super) fn is_waiting(listener: &OwnedFd, id: u64) -> bool {
    let (listener, request) = (listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID);
    // SAFETY: as above.
    unsafe { libc::ioctl(listener, request, &raw const id) == 0 }
}

/// Answers a waiting call with 0, or with the number of an error.
pub(super) fn answer_call(listener: &OwnedFd, id: u64, error: c_int) -> io::Result<()> {
    answer(listener, libc::seccomp_notif_resp { id, val: 0, error: -error, flags: 0 })
}

/// Has the kernel make a waiting call with the arguments that were checked. Memory that they point to may have
/// changed.
pub(super) fn let_pass(listener: &OwnedFd, id: u64) -> io::Result<()> {
    // SECCOMP_USER_NOTIF_FLAG_CONTINUE (linux/seccomp.h), which libc does not have everywhere.
    const CONTINUE: u32 = 1;
    answer(listener, libc::seccomp_notif_resp { id, val: 0, error: 0, flags: CONTINUE })
}

fn answer(listener: &OwnedFd, answer: libc::seccomp_notif_resp) -> io::Result<()> {
    let (listener, request) = (listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND);
    // SAFETY: as above.
    checked(unsafe { libc::ioctl(listener, request, &raw const answer) }).map(drop)
}

/// Sends a signal by its number, of which 0 only asks.
pub(super) fn send_signal(process: &OwnedFd, signal: c_int) -> io::Result<()> {
    let (process, no_more) = (process.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: the null pointer stands for a signal as `kill` sends it.
    checked(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, signal, no_more, 0) })
        .map(drop)
}
