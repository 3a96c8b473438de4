//! A file that reserves disk space until it is needed, and the detection of a full disk.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use super::StoreError;
use crate::atomic_file;

/// The file's name within the home.
const FILE: &str = "ballast";

/// Space in bytes that SQLite needs to open a database: the index of its write-ahead log, and the log's
/// first pages.
const OPEN_BYTES: usize = 64 * 1024;

/// Size of the file in bytes. It is deleted when the disk is full, so that running work can still end
/// cleanly.
const BALLAST_BYTES: usize = 256 * 1024;

/// Time after the deletion until the file is written again, if the disk has space.
const BALLAST_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A file that reserves disk space until it is needed.
pub struct Ballast {
    path: PathBuf,
    /// Time at which the file was deleted, or could not be written. None while it exists.
    gone: Option<Instant>,
}

impl Ballast {
    /// Returns the ballast of a home, without looking if its file exists.
    pub(super) fn of(home: &Path) -> Self {
        Self { path: home.join(FILE), gone: None }
    }

    /// Returns the ballast of a home whose file was just deleted.
    pub(super) fn deleted(home: &Path) -> Self {
        Self { gone: Some(Instant::now()), ..Self::of(home) }
    }

    /// Returns the ballast of a home. Writes the file if it is missing.
    pub fn create(home: &Path) -> Self {
        let mut ballast = Self::of(home);
        ballast.take_in();
        ballast
    }

    fn take_in(&mut self) {
        self.gone = match self.write() {
            // It was there before, or somebody else has written it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => None,
            Err(error) => {
                tracing::warn!(%error, "There is no space for the ballast file");
                Some(Instant::now())
            }
            Ok(()) => None,
        };
    }

    /// Writes the file, which must not exist. A failure leaves none.
    fn write(&self) -> io::Result<()> {
        let mut create = OpenOptions::new();
        create.write(true).create_new(true).mode(0o600);
        // Some file systems have no space for a new file where others have none for its content.
        let mut file = create.open(&self.path)?;
        if let Some(home) = self.path.parent() {
            atomic_file::give_to_owner(home, &self.path).ok();
        }
        file.write_all(&vec![0x5a; BALLAST_BYTES]).inspect_err(|_| {
            fs::remove_file(&self.path).ok();
        })
    }

    /// Deletes the file. Returns true if it existed.
    pub(super) fn delete(&mut self) -> bool {
        let is_freed = fs::remove_file(&self.path).is_ok();
        if is_freed {
            tracing::error!("The disk is full, released the ballast file. Free some space");
        }
        // Somebody else may have deleted it.
        if is_freed || self.gone.is_none() {
            self.gone = Some(Instant::now());
        }
        is_freed
    }

    /// Returns true if the file is there, as far as this knows: it was written, or had been before.
    pub fn is_whole(&self) -> bool {
        self.gone.is_none()
    }

    /// Writes the file again if it was deleted, or could not be written, over a minute ago. Called while the disk has space.
    pub(super) fn restore(&mut self) {
        if self.gone.is_some_and(|gone| gone.elapsed() > BALLAST_AGAIN_AFTER) {
            self.take_in();
        }
    }
}

/// Returns true if the store could not be opened because the disk is full. SQLite reports some of these
/// cases as other errors, so the function tries to write.
pub(super) fn is_full(home: &Path, source: &StoreError) -> bool {
    match source {
        StoreError::Full => true,
        StoreError::Corrupt(_) | StoreError::Index(_) | StoreError::Busy(_) => false,
        StoreError::Broken(_) | StoreError::Change(_) | StoreError::TooSlow => {
            let kind = try_to_write(&home.join("room")).err().map(|error| error.kind());
            matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
        }
    }
}

/// Writes a file of the size that opening takes, and deletes it. Follows no link.
fn try_to_write(path: &Path) -> io::Result<()> {
    // A crash may have left one.
    fs::remove_file(path).ok();
    let mut create = OpenOptions::new();
    let mut file = create.write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(&vec![0x5a; OPEN_BYTES]);
    fs::remove_file(path).ok();
    written
}

/// Returns true if the disk of a database has less space than opening takes, as far as that can be seen without a write: a
/// quota cannot.
pub(super) fn lacks_space(database: &Path) -> bool {
    let home = database.parent().unwrap_or(database);
    let Ok(disk) = statvfs(database).or_else(|_| statvfs(home)) else { return false };
    // Some file systems do not count.
    let lacks_bytes =
        disk.f_blocks > 0 && disk.f_bavail.saturating_mul(disk.f_frsize) < OPEN_BYTES as u64;
    lacks_bytes || (disk.f_files > 0 && disk.f_favail == 0)
}
