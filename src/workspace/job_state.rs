//! State folders beside the workspace. `jobs/<ID>/`: the commands of one job keep files there for its next runs.
//! Commands with the network have one apart from those that see files, so that nothing goes from one to the other.
//! `mcp/<NAME>/`: the files of an MCP server. Tools reach none of them. Nothing here follows a link.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt};

use super::Workspace;
use super::writes::{open_own, sync};

/// The folder of the home that has them.
const JOBS: &str = "jobs";

/// The folder of the home that has those of MCP servers.
pub const MCP_STATES: &str = "mcp";

/// Maximum number of files and folders in one, so that measuring it ends: as many as one command may add.
const ENTRIES_MAX: usize = 250_000;

/// The access of the commands that keep a state folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStateKind {
    Files,
    Network,
}

impl JobStateKind {
    fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Network => "network",
        }
    }
}

impl Workspace {
    /// Returns a state folder of a job, made if it is missing.
    pub fn job_state(&self, job: i64, kind: JobStateKind) -> io::Result<PathBuf> {
        self.state_folder(&[JOBS, &job.to_string(), kind.name()])
    }

    /// Returns the state folder of an MCP server, made if it is missing. The config allows letters, digits, `-` and `_`
    /// in its name.
    pub fn mcp_state(&self, server: &str) -> io::Result<PathBuf> {
        self.state_folder(&[MCP_STATES, server])
    }

    fn state_folder(&self, names: &[&str]) -> io::Result<PathBuf> {
        let mut folder = self.0.home.try_clone()?;
        for name in names {
            match folder.create_dir_with(name, DirBuilder::new().mode(0o700)) {
                Ok(()) => sync(&folder)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            folder = open_own(&folder, name)?;
        }
        Ok(names.iter().fold(self.home_on_disk()?, |folder, name| folder.join(name)))
    }

    /// Returns the jobs that have a state folder.
    pub fn jobs_with_state(&self) -> io::Result<Vec<i64>> {
        let Some(folder) = self.jobs_folder()? else { return Ok(Vec::new()) };
        let mut jobs = Vec::new();
        for entry in folder.entries()? {
            jobs.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i64>().ok()));
        }
        Ok(jobs)
    }

    /// Deletes the state folders of a job.
    pub fn remove_job_state(&self, job: i64) -> io::Result<()> {
        let Some(folder) = self.jobs_folder()? else { return Ok(()) };
        match folder.remove_dir_all(job.to_string()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn jobs_folder(&self) -> io::Result<Option<Dir>> {
        match open_own(&self.0.home, JOBS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }
}

/// Returns true if a state folder holds more than `bytes_max` bytes, or too many files to be measured.
pub fn is_overfull(state: &Path, bytes_max: u64) -> io::Result<bool> {
    let (mut bytes, mut entries, mut waiting) = (0_u64, 0, vec![state.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let found = entry.metadata()?;
            entries += 1;
            if found.is_dir() {
                waiting.push(entry.path());
            } else {
                bytes = bytes.saturating_add(found.len());
            }
            if bytes > bytes_max || entries > ENTRIES_MAX {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
