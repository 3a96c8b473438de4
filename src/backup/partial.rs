//! The unfinished files of a backup. They are locked as long as their process lives, so that the next backup tells those that
//! an ended process has left, and deletes them. Not here: a restore, which unpacks into the home (`restore`).

use std::fs::{self, DirEntry, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use super::{BackupError, BackupName, HomeMark};
use crate::atomic_file::with_ending;

/// The end of the name of an archive in the making.
const ARCHIVE: &str = ".partial";

/// The end of the name of the copy of the store that goes into it.
const STORE: &str = ".partial-db";

/// The ends of all names: SQLite may have files beside the copy.
const ENDINGS: [&str; 5] =
    [".partial-db-journal", ".partial-db-wal", ".partial-db-shm", STORE, ARCHIVE];

/// A file that was not written for so long is no longer being written. Used where no lock can tell.
const AGED: Duration = Duration::from_secs(24 * 3600);

/// The unfinished files beside a backup, which are deleted when this is dropped.
pub(super) struct PartialBackup {
    /// Keeps the lock.
    file: File,
    /// The path without the endings.
    stem: PathBuf,
    pub(super) archive: PathBuf,
    pub(super) store: PathBuf,
}

/// If the process that writes an archive still lives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArchiveWriter {
    Lives,
    IsGone,
    /// The file system has no locks.
    Unknown,
}

impl PartialBackup {
    /// Begins a backup, and deletes what ended ones have left beside it. Only this account can read the files. `mark` is in
    /// their names, so that no other home takes them for its own.
    pub(super) fn begin(file: &Path, mark: Option<&HomeMark>) -> Result<Self, BackupError> {
        delete_leftovers(&folder_of(file), mark);
        let unmarked = file.to_owned();
        let own =
            mark.map_or_else(|| unmarked.clone(), |mark| with_ending(file, &format!(".{mark}")));
        for stem in [&unmarked, &own] {
            if ArchiveWriter::of(&with_ending(stem, ARCHIVE)) != ArchiveWriter::Lives {
                delete(stem);
            }
        }
        let (archive, store) = (with_ending(&own, ARCHIVE), with_ending(&own, STORE));
        let made = create(&archive).and_then(|made| match made.try_lock() {
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AlreadyExists.into()),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(made),
        });
        match made {
            Ok(made) => {
                let partial = Self { file: made, stem: own, archive, store };
                drop(create(&partial.store).map_err(cannot_write(&partial.store))?);
                Ok(partial)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(BackupError::Busy(file.to_owned()))
            }
            Err(error) => Err(cannot_write(file)(error)),
        }
    }

    /// Returns the archive's file, to write to.
    pub(super) fn writer(&self) -> Result<File, BackupError> {
        self.file.try_clone().map_err(cannot_write(&self.archive))
    }
}

impl Drop for PartialBackup {
    fn drop(&mut self) {
        delete(&self.stem);
        // A child that is just being started has the file open, too.
        self.file.unlock().ok();
    }
}

impl ArchiveWriter {
    fn of(archive: &Path) -> Self {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags.bits().cast_signed());
        match options.open(archive).map(|file| file.try_lock()) {
            Ok(Ok(())) => Self::IsGone,
            Ok(Err(TryLockError::WouldBlock)) => Self::Lives,
            Ok(Err(TryLockError::Error(_))) => Self::Unknown,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::IsGone,
            // It is not ours to delete.
            Err(_) => Self::Lives,
        }
    }
}

/// Deletes what ended processes of this home have left in a folder, and what former versions left without a mark. Files of
/// other homes are theirs to delete.
fn delete_leftovers(folder: &Path, mark: Option<&HomeMark>) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let stems: Vec<PathBuf> = entries.filter_map(|entry| leftover(&entry, mark)).collect();
    for stem in stems {
        tracing::info!(file = %stem.display(), "Deleting what an unfinished backup has left");
        delete(&stem);
    }
}

/// Returns the path of an unfinished backup without its ending, if it is a leftover.
fn leftover(entry: &DirEntry, mark: Option<&HomeMark>) -> Option<PathBuf> {
    let name = entry.file_name();
    let name = name.to_str()?;
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending))?;
    if !entry.file_type().ok()?.is_file() {
        return None;
    }
    let is_own = mark.is_some_and(|mark| stem.ends_with(&format!(".{mark}")));
    // A former version locked nothing.
    let is_former = BackupName::parse(stem).is_some_and(|name| name.mark.is_none());
    let written = entry.metadata().and_then(|meta| meta.modified()).ok()?;
    let is_aged = SystemTime::now().duration_since(written).is_ok_and(|age| age > AGED);
    let path = entry.path().with_file_name(stem);
    let is_leftover = match ArchiveWriter::of(&with_ending(&path, ARCHIVE)) {
        ArchiveWriter::Lives => false,
        ArchiveWriter::IsGone => is_own || is_former && is_aged,
        ArchiveWriter::Unknown => (is_own || is_former) && is_aged,
    };
    is_leftover.then_some(path)
}

/// Deletes the unfinished files of a backup, the archive last: its lock says that the others are in use.
fn delete(stem: &Path) {
    for ending in ENDINGS {
        fs::remove_file(with_ending(stem, ending)).ok();
    }
}

/// The folder that a file is in.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// A new file that only this account can read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).open(path)
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    BackupError::io(format!("cannot write {}", path.display()))
}
