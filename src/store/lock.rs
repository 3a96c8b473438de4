//! The lock of a home, which keeps a second daemon out.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::access::{LOCK, obstacle};
use super::{FILE, OpenError};
use crate::atomic_file;

/// The lock of a home. Released when it is dropped, and by a crash.
pub struct HomeLock {
    file: File,
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // A child that is just being started has the file open, too, and would keep the lock for that moment.
        self.file.unlock().ok();
    }
}

impl HomeLock {
    /// Returns the process id of the last daemon that locked the home. It may have ended since.
    pub fn last_holder(home: &Path) -> Option<String> {
        let written = fs::read_to_string(home.join(LOCK)).ok()?;
        let pid = written.trim();
        (!pid.is_empty()).then(|| pid.to_owned())
    }

    /// Creates the home if necessary (readable by its owner only) and locks it.
    pub fn claim(home: &Path) -> Result<Self, OpenError> {
        let broken = |cause| match obstacle(&home.join(FILE)) {
            Some(why) => OpenError::Denied { path: home.to_owned(), why },
            None => OpenError::Home { path: home.to_owned(), cause },
        };
        DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(broken)?;
        let path = home.join(LOCK);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(broken)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let pid = Self::last_holder(home).unwrap_or_default();
                return Err(OpenError::Locked { home: home.to_owned(), pid });
            }
            Err(fs::TryLockError::Error(cause)) => return Err(broken(cause)),
        }
        // The account of the home could not lock a file that root has made.
        if let Err(error) = atomic_file::give_to_owner(home, &path) {
            tracing::warn!(%error, "Cannot give the lock file to the account of the home");
        }
        // The lock holds without the pid in it, and a full disk may not take the pid.
        if let Err(error) = fs::write(&path, std::process::id().to_string()) {
            tracing::warn!(%error, "Cannot write the process id to the lock file");
        }
        Ok(Self { file })
    }
}
