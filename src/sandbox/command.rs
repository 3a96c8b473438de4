//! A command of the sandbox, its bounds, and what the kernel enforces of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::start::CommandInput;
use crate::secret::VariableValue;
use crate::types::words::words;

/// The program's hidden first argument.
pub const ENTRY: &str = "__sandbox";

/// The part of a command's memory that its own `/tmp` may take, which is in memory.
const TMP_SHARE: u64 = 4;

/// Maximum number of threads for each process that a command may have.
pub(super) const THREADS_EACH: u32 = 4;

/// Minimum number of bytes that a file counts for in `/tmp`.
pub(super) const BYTES_A_FILE: u64 = 4 * 1024;

/// Maximum number of files that a command may add, including empty ones: each takes space without any bytes
/// written. More than a large source tree has.
const FILES_MAX: u64 = 250_000;

/// The required strictness of the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxLevel {
    /// Where files or the network cannot be kept away, nothing runs.
    #[default]
    Required,
    /// As much of it as the kernel supports.
    BestEffort,
    /// Commands run as the daemon does; only their number, time and memory are bounded.
    Off,
}

words!(SandboxLevel { Required = "required", BestEffort = "best-effort", Off = "off" });

/// Resource limits of commands. Each is of a single process unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLimits {
    /// Bytes of memory, and of all of a command's processes together.
    pub memory: u64,
    /// Bytes of one file.
    pub file: u64,
    /// Of one command.
    pub processes: u32,
    pub cpu_seconds: u64,
    /// Bytes of disk that one command may use up.
    pub disk: u64,
    /// Files that one command may add.
    pub files: u64,
    /// Bytes in all of the command's own `/tmp`, or of the folder in its place.
    pub tmp: u64,
}

impl CommandLimits {
    pub fn new(memory: u64, file: u64, disk: u64, processes: u32) -> Self {
        let tmp = memory / TMP_SHARE;
        Self { memory, file, processes, cpu_seconds: 0, disk, files: FILES_MAX, tmp }
    }
}

/// The settings that all commands share.
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    /// Our own program, by default the running one.
    pub program: PathBuf,
    pub level: SandboxLevel,
    pub network: bool,
    /// Folders that may be read besides the system, and written besides the workspace.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// All of a command's variables but HOME, PWD and TMPDIR.
    pub env: BTreeMap<String, VariableValue>,
    pub bounds: CommandLimits,
    /// The protections that were found to work. A command does not begin with less.
    pub least: Protections,
    /// The places of its paths at the start. A command does not begin if one of its paths leads elsewhere.
    pub places: Vec<KnownPlace>,
}

/// A path with the place to which it led at the start, without links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPlace {
    pub path: PathBuf,
    pub place: PathBuf,
}

impl Sandbox {
    /// The running program, also when its file has been replaced.
    pub const THIS_PROGRAM: &str = "/proc/self/exe";
}

/// One command.
#[derive(Clone, Debug)]
pub struct SandboxCommand {
    /// For `sh -c`.
    pub command: String,
    /// The working folder, within the visible paths.
    pub cwd: PathBuf,
    /// The folder that it may change.
    pub folder: PathBuf,
    /// Its `HOME`: the folder, or one in it.
    pub home: PathBuf,
    /// Further paths that it may read.
    pub read: Vec<PathBuf>,
    /// Further paths that it may change.
    pub write: Vec<PathBuf>,
    pub time_max: Duration,
    pub input: CommandInput,
}

/// The protections of a command on this kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protections {
    /// The version of Landlock that keeps files away; 0 is none.
    pub landlock: u32,
    /// It has a file system of its own, in which nothing else exists.
    pub own_root: bool,
    /// It sees its own processes only, and none outlives it.
    pub processes: bool,
    pub network: NetworkAccess,
    /// It cannot signal others.
    pub signals: bool,
    /// Dangerous calls to the kernel are refused.
    pub calls: bool,
    /// The kernel limits the memory of all its processes together, by a control group.
    #[serde(default)]
    pub group: bool,
    #[serde(default)]
    pub account: AccountKind,
}

/// The account of a command, as the machine sees it. Weaker kinds come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountKind {
    /// The daemon's, which is root.
    #[default]
    Root,
    /// The daemon's.
    Daemon,
    /// One that nobody has. The daemon is root.
    Unused,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// It should have none, and may have it.
    #[default]
    Open,
    /// It has one, as the config says.
    On,
    /// It has one of its own, in which it is alone.
    Apart,
    /// It can make no socket.
    Refused,
}

impl Protections {
    /// Returns true if Landlock protects files. Before its version 3 (Linux 6.2) it lets files be truncated that may
    /// only be read: then they must be mounted read-only, or those calls refused.
    pub fn files(&self) -> bool {
        self.landlock >= 3 || self.landlock > 0 && (self.own_root || self.calls)
    }

    /// Returns the first protection of `least` that is missing here.
    pub(super) fn missing_protection(&self, least: &Self) -> Option<&'static str> {
        let apart = |network| matches!(network, NetworkAccess::Apart | NetworkAccess::Refused);
        let pairs = [
            (self.landlock < least.landlock, "the Landlock rules"),
            (least.own_root && !self.own_root, "its own file system"),
            (least.processes && !self.processes, "its own processes"),
            (apart(least.network) && !apart(self.network), "the network block"),
            (least.signals && !self.signals, "the signal block"),
            (least.calls && !self.calls, "the block of dangerous system calls"),
            (least.group && !self.group, "its control group"),
            (self.account < least.account, "an account of its own"),
        ];
        pairs.into_iter().find_map(|(lost, protection)| lost.then_some(protection))
    }
}
