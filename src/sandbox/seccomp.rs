//! The seccomp filters of a command. `allowed` lists the system calls that programs need; all others do not exist. This
//! file refuses certain arguments of these calls, and some calls by name: a program that makes them shall see that it
//! may not, rather than look for another way.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::allowed_calls::{ALLOWED, ALLOWED_HERE, ALLOWED_NEWER};
use super::raw;
use super::signals::SIGNALS;

/// Calls that fail as not permitted (EPERM).
const DENIED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // The view of the machine.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Keys, which are the daemon's account's.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Parts of the kernel that have been ways out of sandboxes before.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[libc::c_long] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[libc::c_long] = &[];

/// Calls that fail as on a disk without support (EOPNOTSUPP), so that programs write instead: space that they
/// reserve counts for no process.
const UNSUPPORTED: &[libc::c_long] = &[libc::SYS_fallocate];

/// Older requests of `ioctl` for the same: FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE, and
/// FS_IOC_FSSETXATTR, which sets how much is taken at once (linux/falloc.h, linux/fs.h).
const RESERVING: [u64; 4] = [0x4030_5828, 0x4030_582a, 0x4030_5839, 0x401c_5820];

/// Options that change a socket's buffers: kernel memory that counts for no process. Setting them is ignored, as where
/// the kernel's maximum is already set.
const BUFFER_SIZES: [libc::c_int; 4] =
    [libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE];

/// Refused commands of `fcntl`: a lease keeps others from opening a file, and a larger pipe is uncounted memory.
/// F_SETLEASE and F_SETPIPE_SZ (linux/fcntl.h), which libc does not have everywhere.
const DENIED_CONTROLS: [u64; 2] = [1024, 1031];

/// Attributes of files by their path, which Landlock does not guard: refused where the rest of the account's
/// files is within reach.
const ATTRIBUTES: &[libc::c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

/// Calls that change mode, times or owner of a file, which Landlock does not guard either: they wait for the supervisor.
const SUPERVISED: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Commands of `fcntl` and `ioctl` that set the process which gets a file's signals: F_SETOWN, F_SETOWN_EX, FIOSETOWN
/// and SIOCSPGRP (asm-generic/fcntl.h, asm-generic/sockios.h), which libc does not have everywhere.
const SIGNAL_OWNERS: [u64; 2] = [8, 15];
const SOCKET_OWNERS: [u64; 2] = [0x8901, 0x8902];

/// Calls that set how a process is scheduled, by its number: the first argument. 0 is the caller.
const SCHEDULE: &[libc::c_long] = &[
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
];

/// Calls that set a priority, with the value of the first argument that stands for a process, rather than for a
/// group or an account. The second argument is its number.
const PRIORITIES: [(libc::c_long, u64); 2] =
    [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// PR_SCHED_CORE of `prctl` (linux/prctl.h), which libc does not have: it sets which processes share a core.
const DENIED_OPERATIONS: [u64; 1] = [62];

/// Flags of `clone` for new namespaces. The call itself is needed for threads.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    // CLONE_NEWTIME (linux/sched.h), which libc does not have everywhere.
    0x80,
];

/// Requests of `ioctl` that write into the input of a terminal, as if its owner had typed (ioctl_tty(2)):
/// TIOCSTI and TIOCLINUX, whose type differs between C libraries.
const TYPING: [u64; 2] = [0x5412, 0x541c];

/// The sockets that a command may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Network and Unix sockets, where neither can lead out.
    Usual,
    /// Network sockets only: a filter cannot distinguish the files of Unix sockets.
    NetworkOnly,
    /// Pairs only.
    None,
}

/// The namespaces that a command has to itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnNamespaces {
    pub(super) sockets: Sockets,
    /// True if it sees only its own processes.
    pub(super) processes: bool,
    /// True if it sees only files that it may read.
    pub(super) root: bool,
    /// True if files that may only be read cannot be truncated.
    pub(super) truncation: bool,
}

/// Installs the filters. Where files or processes of others are within reach, returns the listener of the calls that
/// wait for the supervisor.
///
/// # Errors
/// This processor is not known, or the kernel refuses a filter.
pub(super) fn install_filters(own: OwnNamespaces) -> io::Result<Option<OwnedFd>> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(|error| failed(&error))?;
    let mut denied = denied(own.sockets).map_err(|error| failed(&error))?;
    if !own.truncation {
        denied.insert(libc::SYS_truncate, Vec::new());
        for (call, flags) in OPEN_FILES {
            denied
                .entry(*call)
                .or_default()
                .extend(truncating(*flags).map_err(|error| failed(&error))?);
        }
    }
    if !own.processes {
        denied.extend(others().map_err(|error| failed(&error))?);
    }
    let whole = |calls: &[libc::c_long]| {
        calls.iter().map(|call| (*call, Vec::new())).collect::<SeccompRules>()
    };
    let idle = idle().map_err(|error| failed(&error))?;
    let mut unsupported = whole(UNSUPPORTED);
    let reserving = requests(&RESERVING).map_err(|error| failed(&error))?;
    unsupported.insert(libc::SYS_ioctl, reserving);
    if !own.root {
        unsupported.extend(whole(ATTRIBUTES));
    }
    let allowed = [ALLOWED, ALLOWED_HERE, ALLOWED_NEWER].concat();
    let compile = |rules, matching, other| -> io::Result<BpfProgram> {
        let filter = SeccompFilter::new(rules, other, matching, arch);
        filter.and_then(TryInto::try_into).map_err(|error| failed(&error))
    };
    let apply = |rules, matching, other| {
        apply_filter(&compile(rules, matching, other)?).map_err(|error| failed(&error))
    };
    let errno = |error: libc::c_int| SeccompAction::Errno(error.unsigned_abs());
    apply(whole(&allowed), SeccompAction::Allow, errno(libc::ENOSYS))?;
    // Of two filters that refuse a call, the later one decides the error (seccomp(2)).
    for (rules, error) in [(denied, libc::EPERM), (unsupported, libc::EOPNOTSUPP), (idle, 0)] {
        apply(rules, errno(error), SeccompAction::Allow)?;
    }
    if own.root && own.processes {
        return Ok(None);
    }
    let mut waiting = if own.root { SeccompRules::new() } else { whole(SUPERVISED) };
    if !own.processes {
        waiting.extend(whole(SIGNALS));
    }
    let waiting = compile(waiting, SeccompAction::Trap, SeccompAction::Allow)?;
    match raw::install_listener(&supervised(waiting)) {
        Ok(listener) => Ok(Some(listener)),
        // Somebody else listens already, or this kernel has no listeners.
        Err(_) if own.root => Ok(None),
        Err(_) => apply(whole(SUPERVISED), errno(libc::EPERM), SeccompAction::Allow).map(|()| None),
    }
}

/// Returns the program with SECCOMP_RET_USER_NOTIF in place of SECCOMP_RET_TRAP (seccomp(2)): seccompiler has no such
/// action.
fn supervised(mut program: BpfProgram) -> BpfProgram {
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    for step in &mut program {
        if u32::from(step.code) == RETURN && step.k == libc::SECCOMP_RET_TRAP {
            step.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    program
}

type SeccompRules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

/// Rules for calls that report success and do nothing.
fn idle() -> Result<SeccompRules, seccompiler::BackendError> {
    let level = u64::from(libc::SOL_SOCKET.unsigned_abs());
    let sizes = BUFFER_SIZES.iter().map(|option| {
        let option = u64::from(option.unsigned_abs());
        SeccompRule::new(vec![
            SeccompCondition::new(1, Dword, SeccompCmpOp::Eq, level)?,
            SeccompCondition::new(2, Dword, SeccompCmpOp::Eq, option)?,
        ])
    });
    Ok(SeccompRules::from([(libc::SYS_setsockopt, sizes.collect::<Result<_, _>>()?)]))
}

/// Rules for these requests of `ioctl` or commands of `fcntl`.
fn requests(codes: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values(1, codes)
}

/// Rules for these values of an argument.
fn values(argument: u8, codes: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let is = |code: &u64| one(SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, *code)?);
    codes.iter().map(is).collect()
}

/// Rules for calls that name another process, which may be the daemon.
fn others() -> Result<SeccompRules, seccompiler::BackendError> {
    let is_not =
        |argument, value| one(SeccompCondition::new(argument, Dword, SeccompCmpOp::Ne, value)?);
    let mut rules = SeccompRules::new();
    for call in SCHEDULE {
        rules.insert(*call, vec![is_not(0, 0)?]);
    }
    for (call, process) in PRIORITIES {
        rules.insert(call, vec![is_not(0, process)?, is_not(1, 0)?]);
    }
    // Programs then send signals by numbers, which the supervisor can check.
    rules.insert(libc::SYS_pidfd_send_signal, Vec::new());
    rules.insert(libc::SYS_fcntl, requests(&[&DENIED_CONTROLS[..], &SIGNAL_OWNERS].concat())?);
    rules.insert(libc::SYS_ioctl, requests(&[&TYPING[..], &SOCKET_OWNERS].concat())?);
    Ok(rules)
}

fn denied(sockets: Sockets) -> Result<SeccompRules, seccompiler::BackendError> {
    let always = DENIED.iter().chain(DENIED_HERE);
    let mut rules: SeccompRules = always.map(|call| (*call, Vec::new())).collect();
    let namespaces = NAMESPACES.iter().map(|flag| {
        let flag = u64::from(flag.unsigned_abs());
        one(SeccompCondition::new(0, Qword, SeccompCmpOp::MaskedEq(flag), flag)?)
    });
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_ioctl, requests(&TYPING)?);
    rules.insert(libc::SYS_fcntl, requests(&DENIED_CONTROLS)?);
    rules.insert(libc::SYS_prctl, values(0, &DENIED_OPERATIONS)?);
    let families: &[libc::c_int] = match sockets {
        Sockets::Usual => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        Sockets::NetworkOnly => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        Sockets::None => &[],
    };
    // Other families, such as those of virtual machines, ignore namespaces.
    let other = families.iter().map(|family| {
        SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()))
    });
    let other = other.collect::<Result<Vec<_>, _>>()?;
    let other = if other.is_empty() { Vec::new() } else { vec![SeccompRule::new(other)?] };
    rules.insert(libc::SYS_socket, other);
    if sockets != Sockets::Usual {
        // A datagram socket of a pair can write to any named socket.
        rules.insert(libc::SYS_socketpair, vec![one(masked(1, 0xf, DATAGRAM)?)?]);
    }
    // The limits of other processes, the daemon's among them.
    rules.insert(
        libc::SYS_prlimit64,
        vec![one(SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, 0)?)?],
    );
    for (call, mode) in CHANGE_MODES {
        rules.insert(*call, with_rights(*mode, None)?);
    }
    for (call, flags, mode) in MAKE_FILES {
        rules.insert(*call, with_rights(*mode, *flags)?);
    }
    Ok(rules)
}

/// Calls that set a file's mode, with the index of that argument.
const CHANGE_MODES: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
];

/// Calls that make files, with the indices of their flags, if they have any, and of the mode.
const MAKE_FILES: &[(libc::c_long, Option<u8>, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Some(1), 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, None, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, None, 1),
    (libc::SYS_openat, Some(2), 3),
    (libc::SYS_mknodat, None, 2),
];

/// Calls that open files, with the index of the flags.
const OPEN_FILES: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];

/// Rules against truncating a file that is not opened for writing, which the kernel does, also with the access mode 3,
/// which Landlock does not check (open(2)). No program needs that.
fn truncating(flags: u8) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let mask = (libc::O_TRUNC | libc::O_ACCMODE).unsigned_abs();
    let modes = [libc::O_RDONLY, libc::O_ACCMODE];
    let rules = modes
        .map(|mode| one(masked(flags, mask.into(), (libc::O_TRUNC | mode).unsigned_abs().into())?));
    rules.into_iter().collect()
}

/// Rules against modes that give whoever runs a file the rights of its owner or group: the daemon's.
fn with_rights(mode: u8, flags: Option<u8>) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    // The mode matters only where a file may be made.
    let makes = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
    let mut rules = Vec::new();
    for right in [libc::S_ISUID, libc::S_ISGID].map(u64::from) {
        let Some(flags) = flags else {
            rules.push(one(masked(mode, right, right)?)?);
            continue;
        };
        for make in makes.map(|make| u64::from(make.unsigned_abs())) {
            let rule = vec![masked(flags, make, make)?, masked(mode, right, right)?];
            rules.push(SeccompRule::new(rule)?);
        }
    }
    Ok(rules)
}

fn masked(argument: u8, mask: u64, is: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, Dword, SeccompCmpOp::MaskedEq(mask), is)
}

/// SOCK_DGRAM, which is 2 on all processors that seccompiler knows.
const DATAGRAM: u64 = 2;

fn one(condition: SeccompCondition) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![condition])
}
