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

/// Returns true if the text of a config has a setting: a line that is neither blank nor a comment. A file that a full disk
/// has emptied has none.
pub fn has_settings(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Keeps the text of a config that works. One without settings never takes the place of one that has some.
pub fn keep(home: &Path, text: &str) -> io::Result<()> {
    let file = home.join(FILE);
    let is_as_good = |kept: String| kept == text || (has_settings(&kept) && !has_settings(text));
    if fs::read_to_string(&file).is_ok_and(is_as_good) {
        return Ok(());
    }
    atomic_file::replace(&file, text.as_bytes(), atomic_file::PRIVATE)
}

/// Returns the kept file. None if there is none.
pub fn kept(home: &Path) -> Option<PathBuf> {
    let file = home.join(FILE);
    file.exists().then_some(file)
}

/// A loss of the config file's settings, which a home with a kept file shows.
pub struct ConfigLoss {
    /// The copy of the last config that worked.
    pub kept: PathBuf,
    file: PathBuf,
    kind: LossKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossKind {
    /// There is no file.
    Gone,
    /// The file is there, and has no settings. The kept one has some.
    Emptied,
}

/// Returns the loss if the config file is gone from a home in which a daemon has used one, or if it has no settings any more.
/// A file that the command line names must exist anyway.
pub fn lost(home: &Path, explicit: Option<&Path>) -> Option<ConfigLoss> {
    let kept = kept(home)?;
    let file = super::file(home, explicit);
    let has_kept_settings = || fs::read_to_string(&kept).is_ok_and(|kept| has_settings(&kept));
    let kind = match read_text(&file) {
        Ok(text) if !has_settings(&text) && has_kept_settings() => LossKind::Emptied,
        Err(_) if explicit.is_none() && matches!(file.try_exists(), Ok(false)) => LossKind::Gone,
        _ => return None,
    };
    Some(ConfigLoss { kept, file, kind })
}

/// Judges a config that was loaded although its settings may be lost. It is refused if it has no platform: the daemon would
/// be mute, and nobody would hear of it. With one of the environment, somebody may have done without the file for long; it
/// gets a warning.
pub fn refuse_lost(
    home: &Path,
    explicit: Option<&Path>,
    loaded: Result<Config, ConfigErrors>,
) -> Result<Config, ConfigErrors> {
    let Some(loss) = lost(home, explicit) else { return loaded };
    let mut faults = match loaded {
        Ok(mut config) if config.platforms().next().is_some() => {
            config.notes.push(loss.warning());
            return Ok(config);
        }
        Ok(_) => Vec::new(),
        Err(ConfigErrors(faults)) => faults,
    };
    faults.push(loss.fault());
    Err(ConfigErrors(faults))
}

/// Refuses to read the config again if the settings are lost with which the daemon runs, also if the environment starts a
/// platform: that would be another config, with other people in it, and nobody has chosen it.
pub fn refuse_loss(home: &Path, explicit: Option<&Path>) -> Result<(), ConfigErrors> {
    match lost(home, explicit) {
        None => Ok(()),
        Some(loss) => Err(ConfigErrors(vec![loss.fault()])),
    }
}

impl ConfigLoss {
    /// Returns true if the file is there, without settings.
    pub fn is_emptied(&self) -> bool {
        self.kind == LossKind::Emptied
    }

    fn warning(&self) -> String {
        let file = self.file.display();
        match self.kind {
            LossKind::Gone => format!(
                "{file} is gone, although this home was used with a config file: only the environment counts. If that is \
                 meant, delete {FILE} beside it, which is a copy of the last one that worked; if not, copy that to it"
            ),
            LossKind::Emptied => format!(
                "{file} has no settings any more, although this home was used with some: only the environment counts. If \
                 that is meant, delete {FILE} in the home, which is a copy of the last one that worked; if not, copy that \
                 to it"
            ),
        }
    }

    fn fault(&self) -> Fault {
        let message = match self.kind {
            LossKind::Gone => format!(
                "is gone, although this home was used with a config file: bring it back ({FILE} beside it is a copy of \
                 the last one that worked), name it with --config, or move that copy away to do without a config file"
            ),
            LossKind::Emptied => format!(
                "has no settings any more, although this home was used with some; a full disk may have emptied it. Bring \
                 them back ({FILE} in the home is a copy of the last config that worked), or move that copy away to \
                 begin anew"
            ),
        };
        Fault::new(FaultPlace::File(self.file.clone()), &message)
    }
}
