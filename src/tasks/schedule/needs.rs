//! The needs of a job's command beyond the workspace of its person. The person who creates or changes the job names and
//! approves them once. They are stored with the command, and apply to each of its runs.

use serde::{Deserialize, Serialize};

use crate::replies;
use crate::workspace::WorkspacePath;
use crate::workspace::job_state::JobStateKind;
use crate::workspace::named_paths::NAMED_PATHS_MAX;

/// The access of a job's command: private data or the network, never both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandNeeds {
    /// The workspace of its person, and no network.
    #[default]
    Workspace,
    /// A state folder of its own and these paths, and no network.
    Paths(Vec<WorkspacePath>),
    /// The network, and no files but a state folder of its own.
    Network,
}

impl CommandNeeds {
    /// Parses the fields of a request.
    pub fn parse(network: bool, paths: &[String]) -> Result<Self, String> {
        let paths: Vec<_> = paths.iter().map(|path| path.trim()).collect();
        match (network, paths.is_empty()) {
            (false, true) => Ok(Self::Workspace),
            (true, true) => Ok(Self::Network),
            (true, false) => Err(replies::NETWORK_OR_PATHS.to_owned()),
            (false, false) if paths.len() > NAMED_PATHS_MAX => {
                Err(replies::too_many_job_paths(NAMED_PATHS_MAX))
            }
            (false, false) => paths
                .iter()
                .map(|path| path.parse().map_err(|error| replies::wrong_job_path(&error)))
                .collect::<Result<_, _>>()
                .map(Self::Paths),
        }
    }

    /// Returns true if the command needs no more than the default.
    pub fn is_none(&self) -> bool {
        *self == Self::Workspace
    }

    /// Returns the kind of state folder of its runs. None for a command that works in the workspace.
    pub(super) fn state(&self) -> Option<JobStateKind> {
        match self {
            Self::Workspace => None,
            Self::Paths(_) => Some(JobStateKind::Files),
            Self::Network => Some(JobStateKind::Network),
        }
    }

    /// Returns the end of a sentence that describes the needs. None for the default.
    pub(super) fn words(&self) -> Option<String> {
        match self {
            Self::Workspace => None,
            Self::Paths(paths) => Some(replies::job_sees(paths.iter().map(WorkspacePath::as_str))),
            Self::Network => Some(replies::JOB_HAS_NETWORK.to_owned()),
        }
    }
}
