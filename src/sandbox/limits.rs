//! Limits that the kernel itself enforces for each process inside, and the dropped capabilities.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::command::THREADS_EACH;
use super::{CommandLimits, accounting};

/// Maximum number of open files of one process: each may be a socket, which holds kernel memory.
pub(super) const FILES_MAX: u64 = 512;

/// Threads that the rest of the account may yet start, where they count together with a command's. This
/// limit is for bursts between two looks of the accounting, so it may be wide.
const TASKS_SPARE: u64 = 256;

/// Niceness of commands: the daemon comes first.
const NICE: i32 = 5;

/// Sets the limits. `own_users`: processes are counted for this command alone.
pub(super) fn set(bounds: &CommandLimits, own_users: bool) -> io::Result<()> {
    // Programs reserve far more addresses than they ever use, so not the addresses are limited.
    limit(Resource::Data, bounds.memory)?;
    limit(Resource::Fsize, bounds.file)?;
    limit(Resource::Nofile, FILES_MAX)?;
    limit(Resource::Cpu, bounds.cpu_seconds)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Memlock, 0)?;
    limit(Resource::Msgqueue, 0)?;
    let others = match own_users {
        true => Some(0),
        // All of the account's tasks count, wherever they are; and root's never.
        false if getuid().is_root() => None,
        false => Some(accounting::tasks_of(getuid()) + TASKS_SPARE),
    };
    if let Some(others) = others {
        // This limit counts threads.
        let own = bounds.processes.saturating_mul(THREADS_EACH);
        limit(Resource::Nproc, others + u64::from(own))?;
    }
    rustix::process::nice(NICE).ok();
    Ok(())
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    // A stricter limit stays.
    let most = getrlimit(resource).maximum.map_or(most, |allowed| allowed.min(most));
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// Drops the capabilities of root, for this process and for those that it starts.
pub(super) fn give_up_rights() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // This kernel does not know it, or it was never ours to give.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
