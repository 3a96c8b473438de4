//! MCP tools: the configured servers, and the catalogue of their offers. `link.rs` connects to them;
//! without the Cargo feature `mcp` nothing does.

#[cfg(feature = "mcp")]
pub mod catalogue;
#[cfg(feature = "mcp")]
mod flood;
#[cfg(feature = "mcp")]
mod http;
#[cfg(feature = "mcp")]
mod tools;
#[cfg(feature = "mcp")]
mod link;
#[cfg(feature = "mcp")]
mod launch;
#[cfg(feature = "mcp")]
mod process;
#[cfg(feature = "mcp")]
mod stdio;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::people::Role;
use crate::sandbox::{Sandbox, SandboxLevel};
use crate::secret::Secret;
pub use crate::secret::VariableValue;
use crate::trust::mcp_pins::IDENTITY_MARK;
use crate::types::words::words;
use crate::workspace::Hash;

#[cfg(feature = "mcp")]
pub use link::Servers;

/// Maximum number of bytes that are read of a result. The model gets far less.
#[cfg(feature = "mcp")]
const RESULT_BYTES_MAX: usize = 1_000_000;

/// A tool server from the config.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub via: Via,
    /// The server's names of the tools that may be used. None means all.
    pub allow: Option<Vec<String>>,
    /// The server's names of the tools that only read, according to the operator. Their calls need no approval.
    pub reads: Vec<String>,
    /// Time limit of one call.
    pub timeout: Duration,
    /// The lowest role that may use its tools.
    pub role: Role,
    /// True if its output is trusted like the owner's own text.
    pub trusted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Via {
    Program(Box<Program>),
    Http { url: String, headers: Vec<(String, Secret)> },
}

/// A program that communicates over its standard input and output.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, VariableValue>,
    /// The only variables of our own environment that it gets.
    pub inherited: Vec<(&'static str, OsString)>,
    pub cwd: Option<PathBuf>,
    /// Its level, network, readable paths and bounds. The variables are in `env`.
    pub sandbox: Sandbox,
    pub workspace: WorkspaceAccess,
    /// The reason why it must not be started, if there is one: it would see what it must not.
    pub refused: Option<String>,
}

impl Program {
    /// Returns true if it runs in the sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.sandbox.level != SandboxLevel::Off
    }
}

/// The access of a server to the owner's workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceAccess {
    #[default]
    Off,
    Read,
    Write,
}

words!(WorkspaceAccess { Off = "off", Read = "read", Write = "write" });

impl Config {
    /// Returns a text that changes if the owner configures another server in its place. The list of allowed tools is no
    /// part of it: another list does not make texts acceptable that the owner has not seen.
    pub fn identity(&self) -> String {
        let server = match &self.via {
            Via::Http { url, .. } => url.clone(),
            Via::Program(program) => {
                let Program { command, args, cwd, .. } = &**program;
                format!("{command:?} {args:?} {cwd:?}")
            }
        };
        format!("{IDENTITY_MARK}{}", Hash::of(server.as_bytes()))
    }

    /// Returns the values that must not be logged.
    pub fn secrets(&self) -> Box<dyn Iterator<Item = &Secret> + '_> {
        match &self.via {
            Via::Http { headers, .. } => Box::new(headers.iter().map(|(_, value)| value)),
            Via::Program(program) => {
                Box::new(program.env.values().filter_map(VariableValue::secret))
            }
        }
    }
}
