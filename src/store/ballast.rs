//! A file that takes room on the disk until the room is needed, and how a full disk is told from other failures.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::StoreError;

/// The file's name within the home.
const FILE: &str = "ballast";

/// What SQLite needs at least to open a database: the index of its write-ahead log, and the log's first
/// pages.
const OPEN_BYTES: usize = 64 * 1024;

/// Kept on disk to be freed when the disk is full, so that what runs can still be ended tidily.
const BALLAST_BYTES: usize = 256 * 1024;

/// How long the disk must have had room again before it is taken.
const BALLAST_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A file that takes room until the room is needed.
pub(super) struct Ballast {
    path: PathBuf,
    /// Since when it is overboard.
    gone: Option<Instant>,
}

impl Ballast {
    /// The ballast that a home may have.
    pub(super) fn of(home: &Path) -> Self {
        Self { path: home.join(FILE), gone: None }
    }

    /// The ballast of a home that has just been freed.
    pub(super) fn overboard(home: &Path) -> Self {
        Self { gone: Some(Instant::now()), ..Self::of(home) }
    }

    /// The ballast of a home, which is written if it is not there.
    pub(super) fn lay(home: &Path) -> Self {
        let mut ballast = Self::of(home);
        ballast.take_in();
        ballast
    }

    fn take_in(&mut self) {
        let mut create = OpenOptions::new();
        create.write(true).create_new(true).mode(0o600);
        self.gone = None;
        if let Ok(mut file) = create.open(&self.path)
            && let Err(error) = file.write_all(&vec![0x5a; BALLAST_BYTES])
        {
            tracing::warn!(%error, "No room for the ballast file");
            fs::remove_file(&self.path).ok();
            self.gone = Some(Instant::now());
        }
    }

    /// Returns true if there was some.
    pub(super) fn drop_overboard(&mut self) -> bool {
        let is_freed = fs::remove_file(&self.path).is_ok();
        if is_freed {
            tracing::error!("The disk is full; freed the ballast file. Make room");
            self.gone = Some(Instant::now());
        }
        is_freed
    }

    /// Called while there is room: takes it in again, after a while.
    pub(super) fn ease(&mut self) {
        if self.gone.is_some_and(|gone| gone.elapsed() > BALLAST_AGAIN_AFTER) {
            self.take_in();
        }
    }
}

/// Whether the store could not be opened because the disk is full. SQLite has other words for some of it.
pub(super) fn is_full(home: &Path, source: &StoreError) -> bool {
    match source {
        StoreError::Full => true,
        StoreError::Corrupt(_) => false,
        StoreError::Broken(_) | StoreError::Change(_) | StoreError::TooSlow => {
            let probe = home.join("room");
            let written = fs::write(&probe, vec![0x5a; OPEN_BYTES]);
            fs::remove_file(&probe).ok();
            let kind = written.err().map(|error| error.kind());
            matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
        }
    }
}
