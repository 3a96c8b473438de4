//! The lock of a home, which keeps a second daemon out.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::OpenError;

/// The lock of a home. Released when it is dropped, and by a crash.
pub struct HomeLock {
    file: File,
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // A child process between fork and exec has the file open as well, and would keep the lock for that moment.
        self.file.unlock().ok();
    }
}

impl HomeLock {
    /// Locks the home, and creates it if it is missing, readable by its owner only.
    pub fn claim(home: &Path) -> Result<Self, OpenError> {
        let home_error = |source| OpenError::Home { path: home.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(home_error)?;
        let path = home.join("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(home_error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
                return Err(OpenError::Locked { home: home.to_owned(), pid });
            }
            Err(fs::TryLockError::Error(source)) => return Err(home_error(source)),
        }
        // The lock works without the pid in it, which a full disk may reject.
        if let Err(error) = fs::write(&path, std::process::id().to_string()) {
            tracing::warn!(%error, "Cannot write the process id to the lock file");
        }
        Ok(Self { file })
    }
}
