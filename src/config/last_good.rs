//! The last config that worked, kept in the home, so that a mistake can be undone. It is never used by itself: an older
//! config might let somebody in whom a change has just shut out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Config, ConfigErrors, Fault, FaultPlace, read_text};
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

/// Returns the kept file if `config.toml` is gone from a home in which a daemon has used one. A file that the command line
/// names must exist anyway.
pub fn lost(home: &Path, explicit: Option<&Path>) -> Option<PathBuf> {
    let file = super::file(home, explicit);
    let is_gone = explicit.is_none() && matches!(file.try_exists(), Ok(false));
    kept(home).filter(|_| is_gone)
}

/// Judges a config that was loaded although its file may be gone. It is refused if it has no platform: the daemon would be
/// mute, and nobody would hear of it. With one of the environment, somebody may have done without the file for long; it gets
/// a warning.
pub fn refuse_lost(
    home: &Path,
    explicit: Option<&Path>,
    loaded: Result<Config, ConfigErrors>,
) -> Result<Config, ConfigErrors> {
    if lost(home, explicit).is_none() {
        return loaded;
    }
    let file = super::file(home, explicit);
    let mut faults = match loaded {
        Ok(mut config) if config.platforms().next().is_some() => {
            config.notes.push(format!(
                "{} is gone, although this home was used with a config file: only the environment counts. If that is \
                 meant, delete {FILE} beside it, which is a copy of the last one that worked; if not, copy that to it",
                file.display()
            ));
            return Ok(config);
        }
        Ok(_) => Vec::new(),
        Err(ConfigErrors(faults)) => faults,
    };
    faults.push(gone(file));
    Err(ConfigErrors(faults))
}

/// Refuses to read the config again if the file is gone with which the daemon runs, also if the environment starts a
/// platform: that would be another config, with other people in it, and nobody has chosen it.
pub fn refuse_gone(home: &Path, explicit: Option<&Path>) -> Result<(), ConfigErrors> {
    match lost(home, explicit) {
        None => Ok(()),
        Some(_) => Err(ConfigErrors(vec![gone(super::file(home, explicit))])),
    }
}

fn gone(file: PathBuf) -> Fault {
    let message = format!(
        "is gone, although this home was used with a config file: bring it back ({FILE} beside it is a copy of the last \
         one that worked), name it with --config, or move that copy away to do without a config file"
    );
    Fault::new(FaultPlace::File(file), &message)
}
