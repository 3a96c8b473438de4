//! Faults of a config, with their places.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::secret::Redactor;

/// All faults of a config; never empty. Displays one line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Fault>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: FaultPlace,
    /// One line; holds no value of the file.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultPlace {
    File(PathBuf),
    /// Both count from 1; columns are characters.
    At {
        file: PathBuf,
        line: usize,
        column: usize,
    },
    Environment,
}

impl Fault {
    /// Creates a fault. Token-like words in `message` are masked, as they may be a key in the wrong place.
    pub(super) fn new(place: FaultPlace, message: &str) -> Self {
        Self { place, message: Redactor::default().redact(message).into_owned() }
    }
}

impl FaultPlace {
    /// Returns the place of an offset in bytes. The text before it is UTF-8.
    pub(super) fn at(file: &Path, text: &[u8], offset: usize) -> Self {
        let before = String::from_utf8_lossy(&text[..offset.min(text.len())]);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self::At {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for FaultPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::At { file, line, column } => write!(f, "{}:{line}:{column}", file.display()),
            Self::Environment => f.write_str("environment"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl ConfigErrors {
    /// Returns what is wrong without its places, for a config that is in no file yet.
    pub fn messages(&self) -> String {
        self.0.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
