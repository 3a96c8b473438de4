//! The variables that the process was started with, captured once as a value, so that tests need
//! change nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use crate::workspace::skills::SkillEnvironment;

/// Variables by name.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Captures the variables of the process. No other code reads them.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Returns a variable. None if it is not set or empty.
    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|text| !text.is_empty())
    }

    /// Returns a variable as text. None if it is not set, empty or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.raw(name).and_then(OsStr::to_str)
    }

    /// Returns the exit code by which a supervisor, such as the Docker image's entrypoint, learns that `/restart` ended
    /// the program. None if no supervisor asks for one.
    pub fn restart_code(&self) -> Option<u8> {
        self.text("PEACRAB_RESTART_CODE")?.parse().ok()
    }

    /// The names that are UTF-8.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.0.keys().filter_map(|name| name.to_str().map(str::to_owned))
    }

    /// Returns the same variables without one.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut others = self.clone();
        others.0.remove(OsStr::new(name));
        others
    }

    /// Returns those of these variables that are set, for a child process.
    pub(super) fn inherited(&self, names: [&'static str; 4]) -> Vec<(&'static str, OsString)> {
        names.into_iter().filter_map(|name| Some((name, self.raw(name)?.to_owned()))).collect()
    }

    /// Returns the facts about the machine that skills may need.
    pub fn skill_environment(&self) -> SkillEnvironment {
        let set = self.0.iter().filter(|(_, value)| !value.is_empty());
        SkillEnvironment {
            home: self.raw("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
            path: self
                .raw("PATH")
                .map(|path| std::env::split_paths(path).collect())
                .unwrap_or_default(),
            env: set.filter_map(|(name, _)| Some(name.to_str()?.to_owned())).collect(),
        }
    }
}

/// Returns a path of the command line or the environment that does not depend on the current folder.
pub fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, text)| (name.into(), text.into())).collect())
    }
}

/// Names only: the values may be secret.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
