//! The messages between the daemon and its sandbox over their socket: one order, then reports, a line of JSON each.
//! None of it is in arguments or variables, where others could read it.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{CommandLimits, KnownPlace, Protections, SandboxLevel};

/// Maximum size of an order, in bytes.
const SPEC_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The order for a sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SandboxSpec {
    pub(super) task: SandboxTask,
    pub(super) level: SandboxLevel,
    /// The working folder, the folder that it may change, and the home of the command.
    pub(super) cwd: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) home: PathBuf,
    /// All of the command's variables but those that the sandbox adds: HOME, PWD, TMPDIR.
    pub(super) env: Vec<(String, String)>,
    /// Visible paths besides those of the system.
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) network: bool,
    /// Standard output is a terminal, which becomes the command's own.
    pub(super) terminal: bool,
    /// After the order, the daemon hands over the pipe that is the command's standard error.
    pub(super) errors_apart: bool,
    pub(super) bounds: CommandLimits,
    /// The required protections. With less, the command does not begin.
    pub(super) least: Protections,
    /// The places of visible paths. If one leads elsewhere, the command does not begin.
    pub(super) places: Vec<KnownPlace>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SandboxTask {
    /// For `sh -c`.
    Command(String),
    Trial(Trial),
}

/// Paths and addresses that must not be reachable from inside.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Trial {
    /// A folder with the file `secret` and the socket `socket`.
    pub(super) outside: PathBuf,
    pub(super) port: u16,
    /// An abstract Unix socket.
    pub(super) name: String,
    pub(super) process: i32,
}

/// The protections that were tried and worked.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct TrialResult {
    pub(super) files: bool,
    pub(super) workspace: bool,
    pub(super) network: bool,
    pub(super) sockets: bool,
    pub(super) signals: bool,
    pub(super) calls: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum GuardReport {
    /// The sandbox is set up, and the command begins.
    Ready(Protections),
    /// The sandbox cannot be set up, and the command has not begun.
    Failed(String),
    Tried(TrialResult),
    Exit(i32),
    Signal(i32),
    /// It was killed by the sandbox.
    Over(ExceededLimit),
}

/// The limit that a command exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExceededLimit {
    Memory,
    Processes,
    Disk,
    Output,
    Time,
    /// Somebody asked to end it.
    Asked,
}

pub(super) fn encode(spec: &SandboxSpec) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(spec)?;
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    Ok([&length.to_ne_bytes()[..], &text].concat())
}

pub(super) fn read(mut from: impl Read) -> io::Result<SandboxSpec> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_ne_bytes(length) as usize;
    if length > SPEC_BYTES_MAX {
        return Err(io::Error::other("the order is too long"));
    }
    let mut text = vec![0; length];
    from.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Sends a report to the daemon, which may be gone.
pub(super) fn tell(mut to: impl Write, report: &GuardReport) {
    let mut line = serde_json::to_vec(report).expect("our own types have string keys");
    line.push(b'\n');
    to.write_all(&line).ok();
}
