//! The process that becomes the sandbox: it drops its rights, one after the other, starts the command inside,
//! and reports its end. Where processes have a namespace of their own it is their first, so that nothing in it
//! outlives it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getpid, ioctl_tiocsctty, set_child_subreaper,
    set_dumpable_behavior, set_parent_process_death_signal, setsid, test_kill_process, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin};

use super::entry::Prepared;
use super::{NetworkAccess, Protections, SandboxLevel, limits, raw, root, supervisor};
use crate::replies;
use crate::sandbox::paths::{DEVICES, VisiblePath};
use crate::sandbox::seccomp::{self, OwnNamespaces, Sockets};
use crate::sandbox::wire::{self, GuardReport, SandboxSpec, SandboxTask, Trial, TrialResult};

/// The newest version of Landlock that is requested. Kernels provide the part that they support.
const LANDLOCK: ABI = ABI::V9;

/// Maximum time of a call that must be refused.
const TRY_TIME_MAX: Duration = Duration::from_millis(500);

/// Buffer sizes of a TCP socket in each direction, as of other sockets: minimum, default, maximum.
const TCP_BUFFERS: [(&str, &str); 2] = [
    ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 212992"),
    ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 212992"),
];

/// Bytes written by ended processes between two reports to the guard.
const TELL_EVERY: u64 = 1024 * 1024;

/// Runs the command in the sandbox, and reports its end.
pub(super) fn run(spec: &SandboxSpec, prepared: &Prepared, control: &UnixStream) -> ExitCode {
    match restrict_and_run(spec, prepared, control) {
        Ok(last) => {
            wire::tell(control, &last);
            ExitCode::SUCCESS
        }
        Err(error) => {
            wire::tell(control, &GuardReport::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn restrict_and_run(
    spec: &SandboxSpec,
    prepared: &Prepared,
    control: &UnixStream,
) -> io::Result<GuardReport> {
    prepared.start.await_turn()?;
    // From now on no process of this account can look into this one. Entering another account resets this and the next
    // setting, so it comes before them.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The guard may have gone before that.
    let mut gone = [PollFd::new(&prepared.guard, PollFlags::IN)];
    if poll(&mut gone, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0 {
        return Err(io::Error::other("the command is no longer needed"));
    }
    // Processes whose parents end stay below this process, which reaps them.
    set_child_subreaper(Some(getpid()))?;
    setsid()?;
    let stdout = io::stdout();
    if spec.terminal {
        dup2_stdin(stdout.as_fd())?;
        ioctl_tiocsctty(stdout.as_fd())?;
    }
    dup2_stderr(stdout.as_fd())?;
    let group = prepared.group.as_ref().is_some_and(|group| group.memory);
    let account = prepared.start.account.kind();
    let mut enforced = Protections { group, account, ..Protections::default() };
    let tmp = match spec.level {
        SandboxLevel::Off => {
            std::env::set_current_dir(&spec.cwd)?;
            limits::set(&spec.bounds, false)?;
            std::env::temp_dir()
        }
        SandboxLevel::Required | SandboxLevel::BestEffort => {
            enter_sandbox(spec, prepared, &mut enforced)?
        }
    };
    wire::tell(control, &GuardReport::Ready(enforced));
    match &spec.task {
        SandboxTask::Command(command) => run_command(spec, command, &tmp, prepared),
        SandboxTask::Trial(trial) => Ok(GuardReport::Tried(attempt(trial, &enforced))),
    }
}

/// Moves this process into the sandbox. Returns the folder for temporary files.
fn enter_sandbox(
    spec: &SandboxSpec,
    prepared: &Prepared,
    enforced: &mut Protections,
) -> io::Result<PathBuf> {
    let Prepared { seen, start, scratch, .. } = prepared;
    enforced.processes = start.namespaces;
    for (setting, most) in TCP_BUFFERS.into_iter().filter(|_| start.network) {
        // For this network alone. Refused where settings of the kernel are covered.
        fs::write(setting, most).ok();
    }
    let entered = start.namespaces.then(|| root::enter(seen, &spec.bounds));
    enforced.own_root = matches!(entered, Some(Ok(())));
    if let (true, Some(Err(error))) = (start.account.is_other(), &entered) {
        // The ID-mapped mounts exist only in that root. Another account would be no help against a path.
        let why = error.to_string();
        return Err(io::Error::other(match error.path {
            Some(_) => why,
            None => replies::no_account(&why),
        }));
    }
    if start.network {
        // Without the loopback device, a command cannot talk to itself.
        raw::loopback_up().ok();
    }
    std::env::set_current_dir(&spec.cwd)
        .map_err(|error| with_context(&spec.cwd.display(), &error))?;
    limits::set(&spec.bounds, start.namespaces)?;
    limits::give_up_rights()?;
    let tmp = match enforced.own_root {
        true => PathBuf::from("/tmp"),
        false => scratch.path().to_owned(),
    };
    let landlock = restrict(seen, &tmp, enforced.own_root);
    if let Ok(status) = landlock {
        (enforced.landlock, enforced.signals) = status;
    }
    enforced.signals |= enforced.processes;
    let alone = start.network || enforced.landlock >= ABI::V6 as u32;
    let sockets = match (spec.network || start.network, enforced.own_root && alone) {
        (true, true) => Sockets::Usual,
        (true, false) => Sockets::NetworkOnly,
        (false, _) => Sockets::None,
    };
    let own = OwnNamespaces {
        sockets,
        processes: enforced.processes,
        root: enforced.own_root,
        truncation: enforced.own_root || enforced.landlock >= ABI::V3 as u32,
    };
    let refused = seccomp::install_filters(own).and_then(|waiting| match waiting {
        Some(listener) => {
            supervisor::hand_over(&prepared.calls, &listener).map(|()| enforced.signals = true)
        }
        None => Ok(()),
    });
    enforced.calls = refused.is_ok();
    enforced.network = match (spec.network, start.network, enforced.calls) {
        (true, ..) => NetworkAccess::On,
        (false, true, _) => NetworkAccess::Apart,
        (false, false, true) => NetworkAccess::Refused,
        (false, false, false) => NetworkAccess::Open,
    };
    if spec.level == SandboxLevel::Required {
        check_required(enforced, landlock.map(drop), refused)?;
    }
    let Some(lost) = enforced.missing_protection(&spec.least) else { return Ok(tmp) };
    let why = entered.and_then(Result::err).map(|error| format!(" ({error})"));
    Err(io::Error::other(replies::weaker_sandbox(lost, why.as_deref().unwrap_or_default())))
}

/// Returns an error if a protection is missing that the config requires.
fn check_required(
    enforced: &Protections,
    landlock: io::Result<()>,
    calls: io::Result<()>,
) -> io::Result<()> {
    if !enforced.files() {
        landlock?;
        let found = raw::landlock_version();
        let found = found.map_err(|error| error.raw_os_error().unwrap_or_default());
        return Err(io::Error::other(replies::no_landlock(found)));
    }
    if enforced.network == NetworkAccess::Open {
        return Err(io::Error::other("this kernel cannot keep a command off the network"));
    }
    calls.map_err(|error| {
        with_context(&"dangerous calls to the kernel cannot be refused (seccomp)", &error)
    })
}

/// Restricts this process to these paths by Landlock. Returns its version, and true if it holds signals back.
fn restrict(visible: &[VisiblePath], tmp: &Path, own_root: bool) -> io::Result<(u32, bool)> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)))
        .and_then(Ruleset::create);
    let mut rules = rules.map_err(|error| failed(&error))?;
    let read = AccessFs::from_read(LANDLOCK);
    for it in visible {
        let access = if it.writable { AccessFs::from_all(LANDLOCK) } else { read };
        rules = allow(rules, &it.path, access).map_err(|error| failed(&error))?;
    }
    for device in DEVICES {
        let access = AccessFs::from_file(LANDLOCK) & !AccessFs::Execute;
        rules = allow(rules, device.as_ref(), access).map_err(|error| failed(&error))?;
    }
    rules = allow(rules, tmp, AccessFs::from_all(LANDLOCK)).map_err(|error| failed(&error))?;
    if own_root {
        // There is nothing else, so its names may be listed.
        let names = [("/proc", read), ("/", AccessFs::ReadDir.into())];
        for (path, access) in names {
            rules = allow(rules, path.as_ref(), access).map_err(|error| failed(&error))?;
        }
    }
    let status = rules.restrict_self().map_err(|error| failed(&error))?;
    let version = match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => 0,
        (_, LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        (_, _) => 0,
    };
    Ok((version, version >= ABI::V6 as u32))
}

/// Allows access to the paths that exist.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(found) = PathFd::new(path) else { return Ok(rules) };
    let is_folder = fs::metadata(path).is_ok_and(|it| it.is_dir());
    let access = if is_folder { access } else { access & AccessFs::from_file(LANDLOCK) };
    rules.add_rule(PathBeneath::new(found, access))
}

/// Runs the command and waits for its end. Reaps the processes that it has left behind.
#[expect(clippy::disallowed_methods, reason = "this is the sandbox")]
fn run_command(
    spec: &SandboxSpec,
    command: &str,
    tmp: &Path,
    prepared: &Prepared,
) -> io::Result<GuardReport> {
    let output = || io::stdout().as_fd().try_clone_to_owned().map(Stdio::from);
    let errors = match &prepared.errors {
        Some(errors) => errors.try_clone().map(Stdio::from),
        None => output(),
    };
    let mut tell = &prepared.tell;
    let shell = Command::new("/bin/sh")
        .args(["-c", command])
        .env_clear()
        .env("HOME", &spec.home)
        .env("TMPDIR", tmp)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env("PWD", &spec.cwd)
        .stdin(Stdio::inherit())
        .stdout(output()?)
        .stderr(errors?)
        .spawn()
        .map_err(|error| with_context(&"cannot start /bin/sh", &error))?;
    let shell = i32::try_from(shell.id()).ok().and_then(Pid::from_raw);
    let mut reported = 0;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if Some(ended) == shell => {
                return Ok(match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => GuardReport::Exit(code),
                    (None, signal) => GuardReport::Signal(signal.unwrap_or_default()),
                });
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let written = raw::bytes_written_by_reaped();
        // If the socket is full, the next report includes these bytes.
        if written >= reported + TELL_EVERY && tell.write_all(&written.to_ne_bytes()).is_ok() {
            reported = written;
        }
    }
}

fn with_context(what: &dyn std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Attempts forbidden actions, as a command would.
fn attempt(trial: &Trial, enforced: &Protections) -> TrialResult {
    let Trial { outside, port, name, process } = trial;
    let at = SocketAddr::from(([127, 0, 0, 1], *port));
    let (secret, new) = (outside.join("secret"), outside.join("new"));
    let abstract_name = UnixAddr::from_abstract_name(name.as_bytes());
    // The receiver sees if it has arrived.
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(b"?", at)).ok();
    TrialResult {
        files: File::open(&secret).is_err()
            && fs::write(&secret, "x").is_err()
            && File::create(&new).is_err()
            && fs::read_dir(outside).is_err(),
        workspace: fs::write("trial", "x").and_then(|()| fs::read("trial")).is_ok(),
        network: TcpStream::connect_timeout(&at, TRY_TIME_MAX).is_err(),
        sockets: UnixStream::connect(outside.join("socket")).is_err()
            && abstract_name.and_then(|name| UnixStream::connect_addr(&name)).is_err(),
        // In a namespace of their own, the number is another process's, or nobody's.
        signals: enforced.processes
            || Pid::from_raw(*process).is_none_or(|pid| test_kill_process(pid).is_err()),
        calls: !raw::may_be_traced(),
    }
}
