//! The needs of a job's command beyond the workspace of its person. Whoever makes or changes the job names them, and is
//! asked once; they are kept with the command, and each of its runs has them.

use serde::{Deserialize, Serialize};

use crate::replies;
use crate::workspace::WorkspacePath;
use crate::workspace::job_state::JobStateKind;
use crate::workspace::named_paths::NAMED_PATHS_MAX;

/// The access of a job's command: private data or an outlet, never both.
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

    /// Returns true if the command needs no more than each command of a job has.
    pub fn is_none(&self) -> bool {
        *self == Self::Workspace
    }

    /// The state folder that its runs have. None for one in the workspace.
    pub(super) fn state(&self) -> Option<JobStateKind> {
        match self {
            Self::Workspace => None,
            Self::Paths(_) => Some(JobStateKind::Files),
            Self::Network => Some(JobStateKind::Network),
        }
    }

    /// As the end of a sentence about the job.
    pub(super) fn words(&self) -> Option<String> {
        match self {
            Self::Workspace => None,
            Self::Paths(paths) => Some(replies::job_sees(paths.iter().map(WorkspacePath::as_str))),
            Self::Network => Some(replies::JOB_HAS_NETWORK.to_owned()),
        }
    }
}
