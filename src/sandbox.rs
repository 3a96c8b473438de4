//! The sandbox in which commands run: a process of our own binary that drops its rights and becomes the command. It
//! sees the system and the paths that it is given, and nothing of the daemon, its home, or others. A trial finds out
//! what the kernel cannot enforce, and the status reports it; there are no patterns of dangerous commands. Not here:
//! the decision if a command may run (`trust`).
//!
//! ```text
//! daemon ── socket ── guard (entry.rs) ── first process (inside.rs) ── sh -c COMMAND
//!            order →    namespaces, sums      root, limits, Landlock, calls
//!            ← reports  ends all if the socket closes
//! ```

pub mod account;
mod allowed_calls;
mod seccomp;
mod cgroup;
mod command;
pub mod accounting;
mod disk;
mod entry;
pub mod helper;
mod inside;
mod output;
mod limits;
mod paths;
pub mod processes;
mod program;
mod raw;
mod readable;
pub mod reader;
pub mod root;
pub mod scratch;
mod signals;
mod start;
mod supervisor;
mod trial;
mod wire;

use std::ffi::OsStr;
use std::process::ExitCode;

pub use cgroup::adopt_cgroup;
pub use command::{
    AccountKind, CommandLimits, ENTRY, KnownPlace, NetworkAccess, Protections, Sandbox,
    SandboxCommand, SandboxLevel,
};
pub use output::{KeptOutput, WHOLE_BYTES_MAX};
pub use paths::{ExposedPath, find_exposed_path, find_places, is_of_system, resolve_links};
pub use program::{ProgramStreams, SandboxedProgram};
pub use readable::readable;
pub use scratch::sweep;
pub use start::{
    CommandEnding, CommandInput, FinishedCommand, RunningSandbox, StdinFeed, run, run_until,
};
pub use trial::{SandboxState, test_sandbox};
pub use wire::ExceededLimit;

/// Runs the hidden entry, if these are its arguments. To be called before anything else.
pub fn run_entry(mut args: impl Iterator<Item = impl AsRef<OsStr>>) -> Option<ExitCode> {
    (args.nth(1)?.as_ref() == ENTRY).then(entry::run)
}
