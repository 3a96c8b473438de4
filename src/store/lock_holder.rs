//! The note of the process that has a home locked, in the locked file: before a daemon runs, nobody else can be asked.

use std::fmt;
use std::fs;
use std::path::Path;

/// The name within the home of the file that the daemon locks.
pub(super) const LOCK: &str = "lock";

/// The second line of the file while its holder waits for free space. The first is its process id.
pub(super) const AWAITS_SPACE: &str = "waits for free space";

/// The process that has a home locked, as it tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// None if the disk was too full for it.
    pub process: Option<String>,
    /// True if it is a daemon that starts when the disk has space.
    pub awaits_space: bool,
}

impl LockHolder {
    pub(super) fn read(home: &Path) -> Self {
        let text = fs::read_to_string(home.join(LOCK)).unwrap_or_default();
        let mut lines = text.lines();
        let process = lines.next().map(|line| line.trim().to_owned());
        let awaits_space = lines.next() == Some(AWAITS_SPACE);
        Self { process: process.filter(|pid| !pid.is_empty()), awaits_space }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some(pid) => write!(out, "process {pid}")?,
            None => out.write_str("an unknown process")?,
        }
        match self.awaits_space {
            true => out.write_str(", which waits for free space on the disk"),
            false => Ok(()),
        }
    }
}
