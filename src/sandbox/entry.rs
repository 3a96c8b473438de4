//! The hidden entry of the program: the guard, a process with one thread between the daemon and a sandboxed
//! command. It starts the first process in its namespaces, watches the resources that the command takes, and ends
//! all of it when the daemon closes their socket or is killed.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getpgrp, getpid, kill_process,
    kill_process_group, pidfd_open, pidfd_send_signal, set_child_subreaper, set_dumpable_behavior,
    wait,
};

use super::account::CommandAccount;
use super::cgroup::CommandGroup;
use super::paths::{self, VisiblePath};
use super::scratch::Scratch;
use super::{AccountKind, SandboxLevel, inside, processes, raw, root, supervisor};
use crate::replies;
use crate::sandbox::accounting::ResourceAccounting;
use crate::sandbox::wire::{self, ExceededLimit, GuardReport, SandboxSpec};

/// The time for killing the processes that a command left behind, where they cannot be killed as one, and the number of
/// rounds without a pause: a process that starts another and ends must be overtaken.
const SWEEP_TIME_MAX: Duration = Duration::from_secs(10);
const SWEEPS_AT_ONCE: usize = 500;
const SWEEP_PAUSE: Duration = Duration::from_millis(1);

/// The resources that the guard has prepared for the first process.
pub(super) struct Prepared {
    pub(super) seen: Vec<VisiblePath>,
    pub(super) start: FirstStart,
    pub(super) scratch: Scratch,
    /// A pidfd of the guard, which shows its end.
    pub(super) guard: OwnedFd,
    /// Reports to the guard the bytes that ended processes have written.
    pub(super) tell: UnixStream,
    /// Hands the guard the listener of the calls that wait for it.
    pub(super) calls: UnixStream,
    /// The command's standard error, if it is apart from its output.
    pub(super) errors: Option<OwnedFd>,
    /// The control group in which the first process starts, where there are such.
    pub(super) group: Option<CommandGroup>,
}

impl Prepared {
    /// Cleans up after a command that was not begun.
    fn give_up(self) {
        if let Some(group) = self.group {
            group.leave().ok();
            group.remove();
        }
        self.scratch.remove();
    }
}

/// The start of the first process, as both sides know it.
pub(super) struct FirstStart {
    pub(super) account: CommandAccount,
    /// True with namespaces of its own: of processes and others, and of users unless this account can do without.
    pub(super) namespaces: bool,
    /// True with a network namespace, too.
    pub(super) network: bool,
    /// The guard's signal to go on.
    pub(super) begin: Option<UnixStream>,
}

impl FirstStart {
    /// Waits for the guard's signal, and becomes its account.
    pub(super) fn await_turn(&self) -> io::Result<()> {
        if let Some(mut begin) = self.begin.as_ref() {
            begin.read_exact(&mut [0])?;
        }
        self.account.enter()
    }
}

/// Runs the command that the socket on standard error orders.
pub(super) fn run() -> ExitCode {
    raw::close_inherited_files();
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
    if spec.level == SandboxLevel::Required {
        paths::check_all_exist(&spec.write)?;
    }
    let seen = match spec.level {
        SandboxLevel::Off => Vec::new(),
        SandboxLevel::Required | SandboxLevel::BestEffort => {
            paths::check_places(&spec.places)?;
            paths::visible_paths(&spec.read, &spec.write)
        }
    };
    let guard = pidfd_open(getpid(), PidfdFlags::empty())?;
    let scratch = Scratch::new(spec.level)?;
    let (write_reports, tell) = UnixStream::pair()?;
    tell.set_nonblocking(true)?;
    let (waiting, calls) = UnixStream::pair()?;
    let group = CommandGroup::enter_new(&spec.bounds);
    let account = CommandAccount::of_daemon();
    let start = FirstStart { account, namespaces: false, network: false, begin: None };
    let mut prepared = Prepared { seen, start, scratch, guard, tell, calls, errors, group };
    let child = match first_process(&spec, &mut prepared) {
        Ok(Some(child)) => child,
        Ok(None) => return Ok(inside::run(&spec, &prepared, control)),
        Err(error) => {
            prepared.give_up();
            return Err(error);
        }
    };
    // From now on no process of this account can look into this one.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let Prepared { start, scratch, group, .. } = prepared;
    if let Some(group) = &group {
        group.leave()?;
    }
    if let Some(shortage) = shortage {
        shortage.end();
    }
    let writable: Vec<_> = spec.write.iter().cloned().chain([scratch.path().to_owned()]).collect();
    // It ends with this process. If it cannot begin, nobody takes the listener over, and the command is refused.
    thread::Builder::new().spawn(move || supervisor::supervise(&waiting, &writable, child)).ok();
    let is_counted = !group.as_ref().is_some_and(|group| group.memory);
    let accounting = ResourceAccounting::new(child, &spec, &scratch, write_reports, is_counted);
    let watched = accounting.and_then(|accounting| watch(control, child, accounting));
    if let Some(group) = &group {
        if group.is_out_of_memory() {
            wire::tell(control, &GuardReport::Over(ExceededLimit::Memory));
        }
        group.kill();
    }
    if start.namespaces || sweep() {
        scratch.remove();
    }
    if let Some(group) = group {
        group.remove();
    }
    watched.map(|()| ExitCode::SUCCESS)
}

/// The order of the kernel's OOM killer: all of the command, but not its guard, without which the others might
/// outlive it.
struct Shortage {
    file: File,
    before: String,
}

impl Shortage {
    /// Sets it for processes that are started from now on. The kernel may refuse.
    fn first_to_go() -> Option<Self> {
        const FILE: &str = "/proc/self/oom_score_adj";
        let before = fs::read_to_string(FILE).ok()?;
        // Later, this process may not open files about itself.
        let mut file = File::options().write(true).open(FILE).ok()?;
        file.write_all(b"1000").ok()?;
        Some(Self { file, before })
    }

    /// Restores the former order.
    fn end(mut self) {
        self.file.write_all(self.before.trim().as_bytes()).ok();
    }
}

/// Starts the first process with all namespaces that the kernel allows, or with none. Returns `None` in that process.
fn first_process(spec: &SandboxSpec, prepared: &mut Prepared) -> io::Result<Option<Pid>> {
    let network = if spec.network { 0 } else { libc::CLONE_NEWNET };
    let wanted = libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | network;
    let with_users = libc::CLONE_NEWUSER | wanted;
    let is_sandboxed = spec.level != SandboxLevel::Off;
    if is_sandboxed && let Some(other) = CommandAccount::unused_account(&spec.folder)? {
        let lending = root::detach_named_mounts(&mut prepared.seen)
            .and_then(|()| other.give_streams(prepared.errors.as_ref()));
        match lending.and_then(|()| start(other, with_users, prepared)) {
            Err(error) if spec.level == SandboxLevel::Required => {
                let why = match spec.least.account {
                    AccountKind::Unused => {
                        replies::weaker_sandbox("an account of its own", &format!(" ({error})"))
                    }
                    AccountKind::Root | AccountKind::Daemon => {
                        replies::no_account(&error.to_string())
                    }
                };
                return Err(io::Error::other(why));
            }
            Err(_) => {}
            started => return started,
        }
    }
    let own = CommandAccount::of_daemon();
    // The second way is for root only.
    for namespaces in [with_users, wanted].into_iter().filter(|_| is_sandboxed) {
        if let Ok(started) = start(own, namespaces, prepared) {
            return Ok(started);
        }
    }
    start(own, 0, prepared)
}

/// Starts the first process in these namespaces, with this account mapped into them. Returns `None` in that process.
fn start(
    account: CommandAccount,
    namespaces: c_int,
    prepared: &mut Prepared,
) -> io::Result<Option<Pid>> {
    let (begin, mut go) = UnixStream::pair()?;
    let network = namespaces & libc::CLONE_NEWNET != 0;
    prepared.start =
        FirstStart { account, namespaces: namespaces != 0, network, begin: Some(begin) };
    let Some(first) = raw::fork_into(namespaces)? else { return Ok(None) };
    prepared.start.begin = None;
    let mapped = match namespaces & libc::CLONE_NEWUSER {
        0 => Ok(()),
        _ => account.map(first, &prepared.seen),
    };
    if let Err(error) = mapped.and_then(|()| go.write_all(&[1])) {
        kill_process(first, Signal::KILL).ok();
        rustix::process::waitpid(Some(first), WaitOptions::empty())?;
        return Err(error);
    }
    Ok(Some(first))
}

/// Waits for the end of the command. Kills it if the daemon goes or the command exceeds a limit.
fn watch(
    control: &UnixStream,
    child: Pid,
    mut accounting: ResourceAccounting<'_>,
) -> io::Result<()> {
    let handle = pidfd_open(child, PidfdFlags::empty())?;
    loop {
        let pause = i64::from(accounting.pause().subsec_nanos());
        let tick = Timespec { tv_sec: 0, tv_nsec: pause };
        let mut ends = [PollFd::new(&handle, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        match poll(&mut ends, Some(&tick)) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let [ended, daemon_gone] = ends.map(|end| !end.revents().is_empty());
        // The daemon sends nothing after its order: this is its end.
        if daemon_gone {
            kill(&handle);
        } else if !ended {
            if let Some(exceeded) = accounting.look() {
                kill_groups(&processes::of_command(child));
                kill(&handle);
                wire::tell(control, &GuardReport::Over(exceeded));
            }
            continue;
        }
        // Where it is the first of its namespace, it is gone when all the others are.
        rustix::process::waitpid(Some(child), WaitOptions::empty())?;
        return Ok(());
    }
}

fn kill(process: &OwnedFd) {
    // The process may be gone.
    pidfd_send_signal(process, Signal::KILL).ok();
}

/// Kills the process groups of these processes. The kernel kills a group at once, so that none of a fork bomb's processes
/// can start another meanwhile. The command has begun a session of its own: none of its groups has other members.
fn kill_groups(processes: &[Pid]) {
    let own = getpgrp();
    let groups = processes.iter().filter_map(|process| Some(processes::stat(*process)?.group));
    let groups: BTreeSet<i32> = groups.collect();
    for group in groups.into_iter().filter_map(Pid::from_raw).filter(|group| *group != own) {
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// Kills the processes that a command left behind, which became children of this process, or theirs. Returns
/// true if none is left.
fn sweep() -> bool {
    let until = Instant::now() + SWEEP_TIME_MAX;
    for round in 0_usize.. {
        let mut left = processes::descendants(getpid());
        if left.is_empty() {
            // A list that changes while it is read may miss a process.
            left = processes::by_parents(getpid());
        }
        kill_groups(&left);
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
