//! The last config that worked, kept in the home, so that a mistake can be undone. It is never used by itself: an older
//! config might let somebody in whom a change has just shut out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{ConfigErrors, Fault, FaultPlace, read_text};
use crate::atomic_file;

/// The file within the home. As the config itself it may have secrets in it.
const FILE: &str = "config.last-good.toml";

/// Returns the text of the config file. None if there is no file that can be read.
pub fn current_text(home: &Path, explicit: Option<&Path>) -> Option<String> {
    read_text(&super::file(home, explicit)).ok()
}

/// Keeps the text of a config that works.
pub fn keep(home: &Path, text: &str) -> io::Result<()> {
    let file = home.join(FILE);
    if fs::read_to_string(&file).is_ok_and(|kept| kept == text) {
        return Ok(());
    }
    atomic_file::replace(&file, text.as_bytes(), atomic_file::PRIVATE)
}

/// Returns the kept file. None if there is none.
pub fn kept(home: &Path) -> Option<PathBuf> {
    let file = home.join(FILE);
    file.exists().then_some(file)
}

/// Returns an error if `config.toml` is gone from a home in which a daemon has used one: it would run without channels, and
/// nobody would hear of it. A file that the command line names must exist anyway.
pub fn refuse_lost(home: &Path, explicit: Option<&Path>) -> Result<(), ConfigErrors> {
    let file = super::file(home, explicit);
    let is_gone = explicit.is_none() && matches!(file.try_exists(), Ok(false));
    if !is_gone || kept(home).is_none() {
        return Ok(());
    }
    let message = format!(
        "is gone, although this home was used with a config file: bring it back ({FILE} beside it is a copy of the last \
         one that worked), name it with --config, or move that copy away to do without a config file"
    );
    Err(ConfigErrors(vec![Fault::new(FaultPlace::File(file), &message)]))
}
