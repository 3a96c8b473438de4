//! The note of the process that has a home locked, in the locked file: before a daemon runs, nobody else can be asked.

use std::fmt;
use std::fs;
use std::path::Path;

/// The name within the home of the file that the daemon locks.
pub(super) const LOCK: &str = "lock";

/// The second line of the file while its holder waits for free space. The first is its process id.
const AWAITS_SPACE: &str = "waits for free space";

/// The beginning of the second line while its holder updates the database. The step follows.
const UPDATES: &str = "updates its database, ";

/// A step of an update of the database, of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationStep {
    pub number: u32,
    pub of: u32,
}

impl MigrationStep {
    fn parse(text: &str) -> Option<Self> {
        let (number, of) = text.strip_prefix("step ")?.split_once(" of ")?;
        Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
    }
}

impl fmt::Display for MigrationStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "step {} of {}", self.number, self.of)
    }
}

/// Long work of a daemon that starts, and that nobody can ask until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartWork {
    /// It starts when the disk has space.
    AwaitsSpace,
    Updates(MigrationStep),
}

impl StartWork {
    /// Returns the second line of the file.
    pub(super) fn line(self) -> String {
        match self {
            Self::AwaitsSpace => AWAITS_SPACE.to_owned(),
            Self::Updates(step) => format!("{UPDATES}{step}"),
        }
    }

    /// Returns what to do about it, for people.
    pub fn advice(self) -> &'static str {
        match self {
            Self::AwaitsSpace => {
                "free some space: the daemon goes on by itself, and nothing is lost"
            }
            Self::Updates(_) => {
                "wait some minutes for a large database: nothing is lost, and messages are answered then"
            }
        }
    }

    fn parse(line: &str) -> Option<Self> {
        match line {
            AWAITS_SPACE => Some(Self::AwaitsSpace),
            line => MigrationStep::parse(line.strip_prefix(UPDATES)?).map(Self::Updates),
        }
    }
}

/// The process that has a home locked, as it tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// None if the disk was too full for it.
    pub process: Option<String>,
    /// None if it tells of no long work.
    pub work: Option<StartWork>,
}

impl LockHolder {
    pub(super) fn read(home: &Path) -> Self {
        let text = fs::read_to_string(home.join(LOCK)).unwrap_or_default();
        let mut lines = text.lines();
        let process = lines.next().map(|line| line.trim().to_owned());
        let work = lines.next().and_then(StartWork::parse);
        Self { process: process.filter(|pid| !pid.is_empty()), work }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some(pid) => write!(out, "process {pid}")?,
            None => out.write_str("an unknown process")?,
        }
        match self.work {
            Some(StartWork::AwaitsSpace) => {
                out.write_str(", which waits for free space on the disk")
            }
            Some(StartWork::Updates(step)) => {
                write!(out, ", which is updating its database, {step}")
            }
            None => Ok(()),
        }
    }
}
