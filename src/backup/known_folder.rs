//! The folder of the regular backups as its home remembers it since the first one: a disk that is not mounted is missed, and
//! gets no backups on the disk below. Not here: what is in the folder (`schedule`).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::BackupError;
use crate::atomic_file;

/// The name of the file within the home.
const FILE: &str = "backup-folder";

/// A folder that has backups of the home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownFolder {
    folder: PathBuf,
    /// The folder where its file system begins. Numbers of devices would change with each boot.
    mount: PathBuf,
    /// The time of the newest backup there. A former version did not write it.
    #[serde(default)]
    newest: Option<DateTime<Utc>>,
}

impl KnownFolder {
    /// Returns what a home remembers of a folder. None if it has made no backup there yet.
    fn read(home: &Path, folder: &Path) -> Option<Self> {
        let known: Self = serde_json::from_slice(&fs::read(home.join(FILE)).ok()?).ok()?;
        (known.folder == folder).then_some(known)
    }

    /// Returns the folder as it is now.
    fn look(folder: &Path, newest: Option<DateTime<Utc>>) -> io::Result<Self> {
        Ok(Self { folder: folder.to_owned(), mount: mount_of(folder)?, newest })
    }
}

/// Remembers a folder in which there is a backup of the home, the newest one of this time.
pub(super) fn remember(
    home: &Path,
    folder: &Path,
    newest: Option<DateTime<Utc>>,
) -> io::Result<()> {
    let now = KnownFolder::look(folder, newest)?;
    if KnownFolder::read(home, folder).as_ref() == Some(&now) {
        return Ok(());
    }
    let file = home.join(FILE);
    atomic_file::replace(&file, &serde_json::to_vec(&now)?, atomic_file::PRIVATE)?;
    atomic_file::give_to_owner(home, &file)
}

/// Returns true if a home remembers a folder, so that it is not made again.
pub(super) fn is_known(home: &Path, folder: &Path) -> bool {
    KnownFolder::read(home, folder).is_some()
}

/// Returns the time of the newest backup in a folder, as a home remembers it.
pub(super) fn newest(home: &Path, folder: &Path) -> Option<DateTime<Utc>> {
    KnownFolder::read(home, folder)?.newest
}

/// Returns an error if a folder is gone since the last backup, or is not on its disk.
pub(super) fn refuse_missing(home: &Path, folder: &Path) -> Result<(), BackupError> {
    if !is_known(home, folder) {
        return Ok(());
    }
    match folder.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(BackupError::FolderGone(folder.to_owned()))
        }
        Err(error) => Err(BackupError::io(format!("cannot read {}", folder.display()))(error)),
        Ok(_) => match missing_mount(home, folder) {
            Some(mount) => Err(BackupError::NotMounted { folder: folder.to_owned(), mount }),
            None => Ok(()),
        },
    }
}

/// Returns the place where the disk of a folder is to be mounted, if the folder is there without its disk. A file system that
/// begins further below is another disk, which somebody has mounted there since.
pub fn missing_mount(home: &Path, folder: &Path) -> Option<PathBuf> {
    let known = KnownFolder::read(home, folder)?;
    let mount = mount_of(folder).ok()?;
    (!mount.starts_with(&known.mount)).then_some(known.mount)
}

/// Returns the highest folder above this one, or itself, that is on its file system.
fn mount_of(folder: &Path) -> io::Result<PathBuf> {
    let folder = folder.canonicalize()?;
    let device = fs::metadata(&folder)?.dev();
    let is_on_device = |it: &&Path| fs::metadata(it).is_ok_and(|meta| meta.dev() == device);
    let mount = folder.ancestors().take_while(is_on_device).last();
    Ok(mount.unwrap_or(&folder).to_owned())
}
