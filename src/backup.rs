//! Backups of a home: one compressed archive with the store as it is at one moment, and the folders of the workspace.
//! Not here: the config and the keys, which no backup contains.

mod access;
pub mod archive;
mod forget_again;
pub mod known_folder;
mod left_out;
mod linked;
mod mark;
mod partial;
pub mod restore;
pub mod schedule;
mod settle;
mod unpack;

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::store::{OpenError, StoreError};
use crate::workspace::lost::LostWorkspace;
pub use left_out::{LeftOut, UnreadEntry};
pub use mark::HomeMark;

/// The folders of a home that a backup has, besides the store.
pub const FOLDERS: [&str; 7] =
    ["workspace", "downloads", "shared", "people", "groups", "undo", "web"];

/// The name of the first entry of an archive.
const MANIFEST: &str = "peacrab-backup.json";

/// The version of the archive's form.
const FORMAT: u32 = 1;

/// The first entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    format: u32,
    /// The version of the program that wrote it.
    pub version: String,
    /// The version of the store's schema.
    pub schema: u32,
    pub made: DateTime<Utc>,
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    pub file: PathBuf,
    pub bytes: u64,
    pub files: u64,
    pub skipped: SkippedEntries,
    /// Files with several names, some outside of the workspace: the archive has them in the downloads.
    pub moved: u64,
    /// The folders of the archive that have these.
    pub moved_to: BTreeSet<PathBuf>,
    /// Files and folders that could not be read.
    pub left_out: LeftOut,
}

/// Numbers of the entries that no backup has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedEntries {
    /// Symbolic links.
    pub links: u64,
    /// Named pipes, sockets and devices.
    pub special: u64,
}

impl SkippedEntries {
    fn add(&mut self, meta: &Metadata) {
        match meta.is_symlink() {
            true => self.links += 1,
            false => self.special += 1,
        }
    }
}

/// The reason why a backup cannot be made or restored. Each message explains what to do.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is nothing to back up in {0} yet")]
    Nothing(PathBuf),
    #[error("{0} already exists; name another file")]
    Exists(PathBuf),
    #[error("{0} is inside a folder that is backed up: choose one outside of the home")]
    Inside(PathBuf),
    #[error("{0} is being written by another peacrab: wait for it, or name another file")]
    Busy(PathBuf),
    /// The folder of the regular backups, which was there before.
    #[error("there is no folder {0} any more: mount its disk, or make the folder again")]
    FolderGone(PathBuf),
    /// The folder of the regular backups would be on another disk than before.
    #[error(
        "{folder} is not on its disk, because {mount} is not mounted. Mount it; or if the backups are to go there from now on, delete the file backup-folder in the home"
    )]
    NotMounted { folder: PathBuf, mount: PathBuf },
    /// The files that are missing would be in no new backup, and it would push out those that have them.
    #[error(transparent)]
    WorkspaceLost(#[from] LostWorkspace),
    #[error("{what}: {cause}")]
    Io { what: String, cause: std::io::Error },
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Nothing was written: a backup of it could not be restored.
    #[error(
        "{store} cannot be backed up: {cause}. Stop the daemon and restore the newest backup (`peacrab restore FILE --replace`)"
    )]
    DamagedStore { store: PathBuf, cause: StoreError },
    /// The archive is not a complete backup of Peacrab. Nothing was changed.
    #[error("{file} is not a complete backup: {why}")]
    Damaged { file: PathBuf, why: String },
    /// The backup may be complete. Nothing was changed.
    #[error("the disk of {0} is full: free some space, then restore again. Nothing was changed")]
    NoSpace(PathBuf),
    /// Nothing was changed.
    #[error("what was forgotten since the backup cannot be forgotten again in it: {0}")]
    StillKnown(String),
    #[error("{file} was written by a newer peacrab ({version}); install that version first")]
    Newer { file: PathBuf, version: String },
    #[error("a preview of peacrab wrote {file} (schema {found}), and this version cannot read it")]
    Older { file: PathBuf, found: u32 },
    #[error(
        "there is data in {0} already; --replace moves it into a folder before-restore-… in it"
    )]
    NotEmpty(PathBuf),
    /// A mounted disk cannot be moved aside. Nothing was changed.
    #[error(
        "{0} is a disk of its own, and a restore replaces it as a whole: unmount it, restore again, and copy what is then there onto the disk. Nothing was changed"
    )]
    Mounted(PathBuf),
    /// The same in the middle of a restore.
    #[error(
        "the restore has begun, and cannot go on, because {0} is a disk of its own: unmount it, start the daemon, which finishes the restore, and then copy what is there onto the disk"
    )]
    MountedMeanwhile(PathBuf),
}

/// Hears of bytes that were read, again and again.
pub type ReadReport<'a> = &'a mut dyn FnMut(u64);

/// A reader that reports what was read.
struct Reporting<'a, R> {
    inner: R,
    report: ReadReport<'a>,
}

impl<R: Read> Read for Reporting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        (self.report)(read as u64);
        Ok(read)
    }
}

impl BackupError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |cause| Self::Io { what, cause }
    }
}

/// The name of a backup by the time at which it is made.
pub fn file_name(now: DateTime<Utc>) -> String {
    format!("{PREFIX}{}{ENDING}", now.format(TIME))
}

/// The name of a regular backup: several homes may have theirs in one folder.
fn marked_file_name(now: DateTime<Utc>, mark: &HomeMark) -> String {
    format!("{PREFIX}{}-{mark}{ENDING}", now.format(TIME))
}

const PREFIX: &str = "peacrab-";
const ENDING: &str = ".tar.gz";
const TIME: &str = "%Y%m%d-%H%M%S";

/// Length of a time as [`TIME`] writes it, in bytes.
const TIME_BYTES: usize = 15;

/// The name of a backup, read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BackupName {
    /// The time at which it was made, by the clock of its home.
    made: DateTime<Utc>,
    /// The home that made it. None if somebody made it by a command, or a former version by itself.
    mark: Option<HomeMark>,
}

impl BackupName {
    /// None if it is no name of ours.
    fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?;
        let (time, mark) = rest.split_at_checked(TIME_BYTES)?;
        let mark = match mark {
            "" => None,
            mark => Some(HomeMark::parse(mark.strip_prefix('-')?)?),
        };
        let made = chrono::NaiveDateTime::parse_from_str(time, TIME).ok()?.and_utc();
        Some(Self { made, mark })
    }
}
