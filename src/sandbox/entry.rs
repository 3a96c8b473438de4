//! The hidden entry of the program: a process with one thread that stands between the daemon and a
//! caged command. It makes the namespaces, watches over what the command takes, and ends all of it when
//! the daemon lets go of their socket, be it because the daemon was killed.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getegid, geteuid, getpid, kill_process,
    pidfd_open, pidfd_send_signal, set_child_subreaper, set_dumpable_behavior, wait,
};

use super::census::Census;
use super::wire::{self, Report, Spec};
use super::{Level, inside, raw};

/// How often is looked at what a command takes.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often what a command left behind is killed anew, where it cannot be killed as one.
const SWEEPS_MAX: usize = 1_000;

/// What was made for the command that is not in place yet.
pub(super) struct Namespaces {
    /// Of users, or else this account may do without.
    pub(super) made: bool,
    pub(super) network: bool,
}

/// Runs the command that the socket on standard error orders.
pub(super) fn run() -> ExitCode {
    raw::close_the_rest();
    let Ok(control) = io::stderr().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    match guard(&control) {
        Ok(code) => code,
        Err(error) => {
            wire::tell(&control, &Report::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn guard(control: &UnixStream) -> io::Result<ExitCode> {
    let spec = wire::read(control)?;
    // The first to go when memory is short; may be refused.
    fs::write("/proc/self/oom_score_adj", "1000").ok();
    set_child_subreaper(Some(getpid()))?;
    let namespaces = match spec.level {
        Level::Off => Namespaces { made: false, network: false },
        Level::Required | Level::BestEffort => namespaces(!spec.network),
    };
    // From now on nobody of this account can look into this process.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let scratch = Scratch::new(&spec)?;
    let Some(child) = raw::fork()? else {
        return Ok(inside::run(&spec, &namespaces, &scratch, control, &own));
    };
    let watched = watch(control, child, &spec);
    if !namespaces.made {
        sweep();
    }
    scratch.remove();
    watched.map(|()| ExitCode::SUCCESS)
}

/// Makes what namespaces the kernel lets us have; with all of them, or none.
fn namespaces(without_network: bool) -> Namespaces {
    let network = if without_network { libc::CLONE_NEWNET } else { 0 };
    let wanted = libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | network;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let made = match raw::unshare(libc::CLONE_NEWUSER | wanted) {
        Ok(()) => {
            // Everybody stays who they are.
            let maps = fs::write("/proc/self/setgroups", "deny")
                .and_then(|()| fs::write("/proc/self/uid_map", format!("{user} {user} 1")))
                .and_then(|()| fs::write("/proc/self/gid_map", format!("{group} {group} 1")));
            maps.is_ok()
        }
        // Only root may.
        Err(_) => raw::unshare(wanted).is_ok(),
    };
    Namespaces { made, network: made && without_network }
}

/// Waits for the end of the command; brings it about if the daemon goes or the command takes too much.
fn watch(control: &UnixStream, child: Pid, spec: &Spec) -> io::Result<()> {
    let handle = pidfd_open(child, PidfdFlags::empty())?;
    let census = Census::new(child, spec);
    let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
    loop {
        let mut ends = [PollFd::new(&handle, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        match poll(&mut ends, Some(&tick)) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let [ended, let_go] = ends.map(|end| !end.revents().is_empty());
        // The daemon says nothing after its order: this is its end.
        if let_go {
            kill(&handle);
        } else if !ended {
            if let Some(over) = census.look() {
                kill(&handle);
                wire::tell(control, &Report::Over(over));
            }
            continue;
        }
        // Where it is the first of its namespace, it is gone when all the others are.
        rustix::process::waitpid(Some(child), WaitOptions::empty())?;
        return Ok(());
    }
}

fn kill(process: &OwnedFd) {
    // It may be gone.
    pidfd_send_signal(process, Signal::KILL).ok();
}

/// Kills what a command left behind: it all became this process's children.
fn sweep() {
    for _ in 0..SWEEPS_MAX {
        for child in super::census::children(getpid()) {
            kill_process(child, Signal::KILL).ok();
        }
        // Until there are none.
        if wait(WaitOptions::empty()).is_err() {
            return;
        }
    }
}

/// A folder for temporary files, where the command cannot have a `/tmp` of its own.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    fn new(spec: &Spec) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("peacrab-cage-{:016x}", fastrand::u64(..)));
        if spec.level != Level::Off {
            use std::os::unix::fs::DirBuilderExt;
            fs::DirBuilder::new().mode(0o700).create(&folder)?;
        }
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes it; nothing in it is followed.
    fn remove(&self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
