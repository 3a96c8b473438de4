//! The hidden entry of the program: a process with one thread that stands between the daemon and a
//! sandboxed command. It makes the namespaces, watches over what the command takes, and ends all of it when
//! the daemon lets go of their socket, be it because the daemon was killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getegid, geteuid, getpid, kill_process,
    pidfd_open, pidfd_send_signal, set_child_subreaper, set_dumpable_behavior, wait,
};

use super::cgroup::CommandGroup;
use super::scratch::Scratch;
use super::{SandboxLevel, inside, raw, supervisor};
use crate::sandbox::accounting::{self, ResourceAccounting};
use crate::sandbox::wire::{self, ExceededLimit, GuardReport};

/// The interval between two looks at a command's resources.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The time for killing the processes that a command left behind, where they cannot be killed as one, and the number of
/// rounds without a pause: a process that starts another and ends must be overtaken.
const SWEEP_TIME_MAX: Duration = Duration::from_secs(10);
const SWEEPS_AT_ONCE: usize = 500;
const SWEEP_PAUSE: Duration = Duration::from_millis(1);

/// The most that one TCP socket holds for each way, as of other sockets: least, at first, at most.
const TCP_BUFFERS: [(&str, &str); 2] = [
    ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 212992"),
    ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 212992"),
];

/// The resources that the guard has prepared for the first process.
pub(super) struct Prepared {
    pub(super) namespaces: Namespaces,
    pub(super) scratch: Scratch,
    /// The guard, by a handle that tells of its end.
    pub(super) guard: OwnedFd,
    /// Where the guard is told what those have written who have ended.
    pub(super) tell: UnixStream,
    /// Where the guard is handed the calls that wait for it.
    pub(super) calls: UnixStream,
    /// The command's standard error, if it is apart from its output.
    pub(super) errors: Option<OwnedFd>,
    /// The group in which the first process is born, where there are such.
    pub(super) group: Option<CommandGroup>,
}

/// Namespaces that were made for the command and are not in place yet.
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
            wire::tell(&control, &GuardReport::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn guard(control: &UnixStream) -> io::Result<ExitCode> {
    let spec = wire::read(control)?;
    let errors = if spec.errors_apart { supervisor::take_over(control) } else { None };
    let shortage = Shortage::first_to_go();
    set_child_subreaper(Some(getpid()))?;
    let namespaces = match spec.level {
        SandboxLevel::Off => Namespaces { made: false, network: false },
        SandboxLevel::Required | SandboxLevel::BestEffort => namespaces(!spec.network),
    };
    // From now on nobody of this account can look into this process.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let guard = pidfd_open(getpid(), PidfdFlags::empty())?;
    let scratch = Scratch::new(spec.level)?;
    let (told, tell) = UnixStream::pair()?;
    tell.set_nonblocking(true)?;
    let (waiting, calls) = UnixStream::pair()?;
    let group = CommandGroup::enter_new(&spec.bounds);
    let prepared = Prepared { namespaces, scratch, guard, tell, calls, errors, group };
    let Some(child) = raw::fork()? else {
        return Ok(inside::run(&spec, &prepared, control));
    };
    let Prepared { namespaces, scratch, group, .. } = prepared;
    if let Some(group) = &group {
        group.leave()?;
    }
    if let Some(shortage) = shortage {
        shortage.end();
    }
    let writable: Vec<_> = spec.write.iter().cloned().chain([scratch.path().to_owned()]).collect();
    // It ends with this process. If it cannot begin, nobody takes the calls over, and the command is refused.
    thread::Builder::new().spawn(move || supervisor::supervise(&waiting, &writable)).ok();
    let is_counted = !group.as_ref().is_some_and(|group| group.memory);
    let accounting = ResourceAccounting::new(child, &spec, &scratch, told, is_counted);
    let watched = accounting.and_then(|accounting| watch(control, child, accounting));
    if let Some(group) = &group {
        if group.is_out_of_memory() {
            wire::tell(control, &GuardReport::Over(ExceededLimit::Memory));
        }
        group.kill();
    }
    if namespaces.made || sweep() {
        scratch.remove();
    }
    if let Some(group) = group {
        group.remove();
    }
    watched.map(|()| ExitCode::SUCCESS)
}

/// The order of killing when memory is short: all of the command, but not its guard, without which the others might
/// outlive it.
struct Shortage {
    file: File,
    before: String,
}

impl Shortage {
    /// Holds for what is started from now on. May be refused.
    fn first_to_go() -> Option<Self> {
        const FILE: &str = "/proc/self/oom_score_adj";
        let before = fs::read_to_string(FILE).ok()?;
        // Later, this process may not open what says something of it.
        let mut file = File::options().write(true).open(FILE).ok()?;
        file.write_all(b"1000").ok()?;
        Some(Self { file, before })
    }

    /// From now on it goes as before.
    fn end(mut self) {
        self.file.write_all(self.before.trim().as_bytes()).ok();
    }
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
    let network = made && without_network;
    for (setting, most) in TCP_BUFFERS.into_iter().filter(|_| network) {
        // Of this network alone; refused where settings of the kernel are covered.
        fs::write(setting, most).ok();
    }
    Namespaces { made, network }
}

/// Waits for the end of the command; brings it about if the daemon goes or the command takes too much.
fn watch(
    control: &UnixStream,
    child: Pid,
    mut accounting: ResourceAccounting<'_>,
) -> io::Result<()> {
    let handle = pidfd_open(child, PidfdFlags::empty())?;
    let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
    loop {
        let mut ends = [PollFd::new(&handle, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        match poll(&mut ends, Some(&tick)) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let [ended, let_go] = ends.map(|end| !end.revents().is_empty());
        // The daemon says nothing after its order: this is its end.
        if let_go {
            kill(&handle);
        } else if !ended {
            if let Some(over) = accounting.look() {
                kill(&handle);
                wire::tell(control, &GuardReport::Over(over));
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

/// Kills what a command left behind: it all became this process's children, or theirs. Whether nobody
/// is left.
fn sweep() -> bool {
    let until = Instant::now() + SWEEP_TIME_MAX;
    for round in 0_usize.. {
        let mut left = accounting::descendants(getpid());
        if left.is_empty() {
            // A list that changes while it is read may miss somebody.
            left = accounting::by_parents(getpid());
        }
        for process in left {
            kill_process(process, Signal::KILL).ok();
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return true,
            }
        }
        if Instant::now() > until {
            return false;
        }
        if round >= SWEEPS_AT_ONCE {
            sleep(SWEEP_PAUSE);
        }
    }
    false
}
