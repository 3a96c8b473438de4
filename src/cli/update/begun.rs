//! An update at work: a lock that keeps a second one out, and a note beside the program by which the next `peacrab update`
//! ends one that was killed. Not here: what it does to end it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::{NEW, PRESENT};
use crate::atomic_file::{self, with_ending};
use crate::cli::systemd::Manager;

/// The mode of the note. There is nothing private in it.
const MODE: u32 = 0o644;

/// The lock on the folder of a program. Released when it is dropped, and by a crash.
pub(super) struct UpdateLock {
    _folder: File,
}

impl UpdateLock {
    /// Keeps out every other update of this program. The second would keep the new program as the old one.
    pub(super) fn claim(exe: &Path) -> anyhow::Result<Self> {
        let folder = exe.parent().unwrap_or(Path::new("/"));
        let opened =
            File::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
        match opened.try_lock() {
            Err(TryLockError::WouldBlock) => bail!(
                "another `peacrab update` is at work in {}: nothing was changed. Wait until it has ended",
                folder.display()
            ),
            // Some network file systems lock no folders.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { _folder: opened }),
        }
    }
}

/// The note of a program that takes the place of another one, until its service is healthy or the old one is back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BegunUpdate {
    pub(super) version: String,
    /// The version of the old program.
    pub(super) former: String,
    /// The newest schema of the store that the old program can open. Notes of former versions of this one do not have it.
    #[serde(default)]
    pub(super) former_schema: u32,
    /// The home of the service.
    pub(super) home: PathBuf,
    pub(super) is_service_of_account: bool,
    /// True once the old program is to return.
    pub(super) goes_back: bool,
}

impl BegunUpdate {
    /// Returns the note of an update of this program that was killed and has to be ended. None if there is no note, or
    /// somebody has put another program in its place since.
    pub(super) fn cut_off(exe: &Path) -> Option<Self> {
        let begun: Self = serde_json::from_slice(&fs::read(Self::file(exe)).ok()?).ok()?;
        // Until it gets its name, the new program has replaced nothing.
        let has_replaced = !with_ending(exe, NEW).exists();
        // The old program is here again if it was killed at the end of the way back.
        let is_this = PRESENT == begun.version || (begun.goes_back && PRESENT == begun.former);
        Some(begun).filter(|_| has_replaced && is_this)
    }

    pub(super) fn write(&self, exe: &Path) -> anyhow::Result<()> {
        let (file, text) = (Self::file(exe), serde_json::to_vec(self)?);
        atomic_file::replace(&file, &text, MODE)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    pub(super) fn remove(exe: &Path) {
        fs::remove_file(Self::file(exe)).ok();
    }

    pub(super) fn manager(&self) -> Manager {
        if self.is_service_of_account { Manager::User } else { Manager::System }
    }

    fn file(exe: &Path) -> PathBuf {
        with_ending(exe, ".update")
    }
}
