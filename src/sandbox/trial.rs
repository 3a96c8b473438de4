//! Tries the sandbox before the program relies on it: a process inside attempts forbidden actions on targets
//! that were prepared for it. The result tells which protections work on this kernel.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::start::{command, enforced, spec};
use super::{
    AccountKind, CommandInput, NetworkAccess, Protections, Sandbox, SandboxCommand, SandboxLevel,
};
use crate::replies;
use crate::sandbox::scratch::TRIAL_NAME;
use crate::sandbox::wire::{self, GuardReport, SandboxSpec, SandboxTask, Trial, TrialResult};

/// Time limit of the trial: far longer than it takes on a busy board.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(10);

/// The state of the shell on this machine and by this config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SandboxState {
    /// Switched off.
    #[default]
    Off,
    /// It is enabled, but not offered.
    Refused { why: String },
    /// Its name in the status is an older one, which scripts may read; likewise below.
    #[serde(rename = "caged")]
    Sandboxed { level: SandboxLevel, enforced: Protections },
    /// Commands run as the daemon does, because the config says so.
    #[serde(rename = "uncaged")]
    Unsandboxed,
}

impl SandboxState {
    pub fn is_offered(&self) -> bool {
        matches!(self, Self::Sandboxed { .. } | Self::Unsandboxed)
    }

    /// Describes the state for people, in a line or a few.
    pub fn describe(&self) -> String {
        match self {
            Self::Off => replies::SHELL_OFF.to_owned(),
            Self::Refused { why } => replies::shell_refused(why),
            Self::Unsandboxed => replies::SHELL_WITHOUT_SANDBOX.to_owned(),
            Self::Sandboxed { level, enforced } => {
                let (held, open) = enforced.parts();
                replies::shell_sandboxed(level.as_str(), &held, &open)
            }
        }
    }
}

impl Protections {
    /// Returns sentences about the protections that work, and those that do not.
    fn parts(&self) -> (Vec<String>, Vec<String>) {
        let network = match self.network {
            NetworkAccess::On => None,
            NetworkAccess::Apart | NetworkAccess::Refused => {
                Some((true, replies::SANDBOXED_NETWORK))
            }
            NetworkAccess::Open => Some((false, replies::SANDBOXED_NETWORK)),
        };
        let files = replies::sandboxed_files(self.landlock, self.own_root);
        let account = match self.account {
            AccountKind::Daemon => None,
            kind => Some((kind == AccountKind::Unused, replies::SANDBOXED_ACCOUNT)),
        };
        let parts = [
            Some((self.files(), files.as_str())),
            network,
            Some((self.processes, replies::SANDBOXED_PROCESSES)),
            Some((self.signals, replies::SANDBOXED_SIGNALS)),
            Some((self.calls, replies::SANDBOXED_CALLS)),
            account,
        ];
        let pick = |wanted: bool| {
            let parts = parts.into_iter().flatten();
            parts.filter(|part| part.0 == wanted).map(|part| part.1.to_owned()).collect()
        };
        let (mut held, open): (Vec<String>, _) = (pick(true), pick(false));
        if self.network == NetworkAccess::On {
            held.push(replies::SANDBOXED_NETWORK_ON.to_owned());
        }
        if self.group {
            held.push(replies::SANDBOXED_GROUP.to_owned());
        }
        (held, open)
    }
}

/// Tries the sandbox, once. Blocks for some milliseconds.
pub fn test_sandbox(sandbox: &Sandbox) -> SandboxState {
    if sandbox.level == SandboxLevel::Off {
        return SandboxState::Unsandboxed;
    }
    match attempt(sandbox) {
        Err(error) => SandboxState::Refused { why: error.to_string() },
        Ok(enforced) => {
            let lacks =
                !enforced.files() || enforced.network == NetworkAccess::Open || !enforced.calls;
            if sandbox.level == SandboxLevel::Required && lacks {
                let (_, open) = enforced.parts();
                return SandboxState::Refused { why: replies::not_enforced(&open) };
            }
            SandboxState::Sandboxed { level: sandbox.level, enforced }
        }
    }
}

fn attempt(sandbox: &Sandbox) -> io::Result<Protections> {
    let place = TrialFolder::new()?;
    let (inside, outside) = (place.0.join("in"), place.0.join("out"));
    for folder in [&inside, &outside] {
        DirBuilder::new().mode(0o700).create(folder)?;
    }
    fs::write(outside.join("secret"), "out of reach")?;
    let _file = UnixListener::bind(outside.join("socket"))?;
    let name = format!("peacrab-trial-{:016x}", fastrand::u64(..));
    let _name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes())?)?;
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let udp = UdpSocket::bind(tcp.local_addr()?)?;
    udp.set_nonblocking(true)?;
    let process = std::process::id().cast_signed();
    let task = SandboxTask::Trial(Trial { outside, port: tcp.local_addr()?.port(), name, process });
    let order = SandboxCommand {
        command: String::new(),
        cwd: inside.clone(),
        folder: inside.clone(),
        home: inside,
        read: Vec::new(),
        write: Vec::new(),
        time_max: TRIAL_TIME_MAX,
        input: CommandInput::Pipe,
    };
    // The trial finds out what there is, so it requires nothing.
    let spec = SandboxSpec { least: Protections::default(), ..spec(sandbox, &order, task) };
    let (enforced, mut held) = run_trial(sandbox, &wire::encode(&spec)?)?;
    held.network &= udp.recv(&mut [0; 1]).is_err();
    if !held.workspace {
        return Err(io::Error::other("inside, the workspace cannot be used"));
    }
    Ok(confirmed(enforced, held))
}

/// Runs the trial in the sandbox. Returns the reported protections, and those that withstood it.
fn run_trial(sandbox: &Sandbox, order: &[u8]) -> io::Result<(Protections, TrialResult)> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = command(sandbox);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(OwnedFd::from(theirs));
    let mut child = command.spawn()?;
    drop(command);
    ours.set_read_timeout(Some(TRIAL_TIME_MAX))?;
    let mut reports = Vec::new();
    let exchange = ours.write_all(order).and_then(|()| ours.read_to_end(&mut reports));
    // It ends with its socket.
    drop(ours);
    if exchange.is_err() {
        child.kill().ok();
    }
    child.wait()?;
    let mut held = Err(io::Error::other("the sandbox cannot be set up, and gives no reason"));
    for line in reports.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(GuardReport::Tried(tried)) => held = Ok(tried),
            Ok(GuardReport::Failed(why)) => held = Err(io::Error::other(why)),
            _ => {}
        }
    }
    let held = held?;
    Ok((enforced(&reports).unwrap_or_default(), held))
}

/// Returns the reported protections without those that failed the trial.
fn confirmed(reported: Protections, held: TrialResult) -> Protections {
    let network = match reported.network {
        NetworkAccess::Apart | NetworkAccess::Refused if !held.network || !held.sockets => {
            NetworkAccess::Open
        }
        other => other,
    };
    Protections {
        landlock: if held.files { reported.landlock } else { 0 },
        own_root: reported.own_root && held.files,
        network,
        signals: reported.signals && held.signals,
        calls: reported.calls && held.calls,
        processes: reported.processes,
        group: reported.group,
        account: reported.account,
    }
}

/// A folder that is removed in the end.
struct TrialFolder(PathBuf);

impl TrialFolder {
    fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("{TRIAL_NAME}{:016x}", fastrand::u64(..)));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for TrialFolder {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        fs::remove_dir_all(path).ok();
    }
}
