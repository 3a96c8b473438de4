//! Drops the rights of a process of our own that reads untrusted content: it keeps its open files, memory and time, but
//! no access to other files, the network or other processes.

use std::collections::BTreeMap;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::set_no_new_privs;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// Maximum memory of the process, in bytes.
const MEMORY_MAX: u64 = 512 * 1024 * 1024;

/// Maximum CPU time, in seconds.
const CPU_SECONDS_MAX: u64 = 15;

/// System calls that computing needs. All others are refused.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Drops the rights of this process irrevocably. Each step must succeed.
pub fn confine() -> io::Result<()> {
    // The OOM killer takes it before the daemon. The kernel may refuse.
    std::fs::write("/proc/self/oom_score_adj", "1000").ok();
    rustix::process::nice(5).ok();
    let limits = [
        (Resource::Data, MEMORY_MAX),
        (Resource::Cpu, CPU_SECONDS_MAX),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
    ];
    for (resource, most) in limits {
        let most = getrlimit(resource).maximum.map_or(most, |allowed| allowed.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    set_no_new_privs(true)?;
    let failed = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(|error| failed(&error))?;
    let rules: BTreeMap<_, _> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch);
    let filter: BpfProgram = filter.and_then(TryInto::try_into).map_err(|error| failed(&error))?;
    apply_filter(&filter).map_err(|error| failed(&error))
}
