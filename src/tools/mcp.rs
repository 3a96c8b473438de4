//! Tools that other programs lend by the Model Context Protocol: who they are, and the catalogue
//! made of what they offer. Reaching them is `link.rs`; without the Cargo feature `mcp` nobody does.

#[cfg(feature = "mcp")]
pub mod catalogue;
#[cfg(feature = "mcp")]
mod http;
#[cfg(feature = "mcp")]
mod lent;
#[cfg(feature = "mcp")]
mod link;
#[cfg(feature = "mcp")]
mod process;
#[cfg(feature = "mcp")]
mod stdio;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::people::Role;
use crate::secret::Secret;
pub use crate::secret::Setting;

#[cfg(feature = "mcp")]
pub use link::Servers;

/// The most that is read of a result; the model is shown far less.
#[cfg(feature = "mcp")]
const RESULT_BYTES_MAX: usize = 1_000_000;

/// A server of tools, as the operator has named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub via: Via,
    /// The tools that may be used, as the server calls them; none: all.
    pub allow: Option<Vec<String>>,
    /// How long one call may take.
    pub timeout: Duration,
    /// The least role that may use its tools.
    pub role: Role,
    /// Whether what it says is as good as the owner's own words.
    pub trusted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    Program(Program),
    Http { url: String, headers: Vec<(String, Secret)> },
}

/// A program that speaks over its standard input and output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, Setting>,
    /// What of our own variables it gets; none of the others.
    pub inherited: Vec<(&'static str, OsString)>,
    pub cwd: Option<PathBuf>,
}

impl Config {
    /// All that must stay out of logs.
    pub fn secrets(&self) -> Box<dyn Iterator<Item = &Secret> + '_> {
        match &self.via {
            Via::Http { headers, .. } => Box::new(headers.iter().map(|(_, value)| value)),
            Via::Program(program) => Box::new(program.env.values().filter_map(Setting::secret)),
        }
    }
}
