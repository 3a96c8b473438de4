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
        // A child that is just being started has the file open, too, and would keep the lock for that moment.
        self.file.unlock().ok();
    }
}

impl HomeLock {
    /// Creates the home if necessary (readable by its owner only) and locks it.
    pub fn claim(home: &Path) -> Result<Self, OpenError> {
        let broken = |cause| OpenError::Home { path: home.to_owned(), cause };
        DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(broken)?;
        let path = home.join("lock");
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
                let pid = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
                return Err(OpenError::Locked { home: home.to_owned(), pid });
            }
            Err(fs::TryLockError::Error(cause)) => return Err(broken(cause)),
        }
        // The lock holds without the pid in it, and a full disk may not take the pid.
        if let Err(error) = fs::write(&path, std::process::id().to_string()) {
            tracing::warn!(%error, "Cannot write the process id to the lock file");
        }
        Ok(Self { file })
    }
}
