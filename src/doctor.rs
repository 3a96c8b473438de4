//! Checks of everything that a running bot needs, each with its severity and what to do. Those of files and of the
//! machine are made where the command runs; those of the links are made by the daemon, if one runs. Not here:
//! repairs.

pub mod backups;
pub mod daemon;
pub mod files;
pub mod links;
pub mod machine;
pub mod service;
pub mod store;
pub mod wear;
pub mod workspace;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The subject, such as `disk` or `channel home`.
    pub check: String,
    pub severity: Severity,
    pub words: String,
    /// Advice to the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The change that makes it right without a risk.
    #[serde(skip)]
    pub repair: Option<Repair>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Ok,
    /// It works, but perhaps not as meant, or not for long.
    Warning,
    Wrong,
}

/// A change that a check proposes, and that cannot make anything worse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Takes rights of others away from a file or folder.
    Mode { path: PathBuf, mode: u32 },
    /// Lets the services of this account run while nobody is logged in.
    Linger,
}

impl Finding {
    pub fn ok(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self::new(Severity::Ok, check.into(), words.into())
    }

    pub fn warning(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self::new(Severity::Warning, check.into(), words.into())
    }

    pub fn wrong(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self::new(Severity::Wrong, check.into(), words.into())
    }

    fn new(severity: Severity, check: String, words: String) -> Self {
        Self { check, severity, words, advice: None, repair: None }
    }

    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    #[must_use]
    pub fn repaired_by(self, repair: Repair) -> Self {
        Self { repair: Some(repair), ..self }
    }
}
