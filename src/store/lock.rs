//! The lock of a home, which keeps a second daemon out.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::access::obstacle;
use super::lock_holder::{LOCK, LockHolder, StartWork};
use super::{FILE, OpenError};
use crate::atomic_file;

/// Attempts to lock a home, and the pause between them. A command that looks if it is locked holds it for an instant.
const ATTEMPTS: usize = 5;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

/// The lock of a home. Released when it is dropped, and by a crash.
pub struct HomeLock {
    file: File,
    /// True while there is more than the process id in the file.
    has_note: AtomicBool,
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
        LockHolder::read(home).process
    }

    /// Returns the process that has the home locked now. None if nobody has, or this account cannot know.
    pub fn holder(home: &Path) -> Option<LockHolder> {
        let file = File::open(home.join(LOCK)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(LockHolder::read(home)),
            // Closing the file would be enough, unless a child has it open as well.
            Ok(()) => file.unlock().ok().and(None),
            Err(TryLockError::Error(_)) => None,
        }
    }

    /// Returns true if nobody has the home locked now. False if this account cannot know.
    pub fn is_free(home: &Path) -> bool {
        match File::open(home.join(LOCK)) {
            Ok(file) => file.try_lock_shared().is_ok() && file.unlock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
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
        match try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = LockHolder::read(home);
                return Err(OpenError::Locked { home: home.to_owned(), holder });
            }
            Err(TryLockError::Error(cause)) => return Err(broken(cause)),
        }
        // The account of the home could not lock a file that root has made.
        if let Err(error) = atomic_file::give_to_owner(home, &path) {
            tracing::warn!(%error, "Cannot give the lock file to the account of the home");
        }
        // The lock holds without the pid in it, and a full disk may not take the pid.
        let lock = Self { file, has_note: AtomicBool::new(false) };
        if let Err(error) = lock.write(&std::process::id().to_string()) {
            tracing::warn!(%error, "Cannot write the process id to the lock file");
        }
        Ok(lock)
    }

    /// Tells those who look at the lock which long work this process does before it can be asked. None: it does none, or
    /// none any more.
    pub fn note(&self, work: Option<StartWork>) {
        let had_note = self.has_note.swap(work.is_some(), Ordering::Relaxed);
        if work.is_none() && !had_note {
            return;
        }
        let pid = std::process::id();
        let text = match work {
            Some(work) => format!("{pid}\n{}\n", work.line()),
            None => pid.to_string(),
        };
        if let Err(error) = self.write(&text) {
            tracing::debug!(%error, "Cannot write to the lock file what the start waits for");
        }
    }

    /// Writes the text in place: the file keeps its space on a full disk.
    fn write(&self, text: &str) -> io::Result<()> {
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }
}

fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 1..ATTEMPTS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => sleep(ATTEMPT_PAUSE),
            tried => return tried,
        }
    }
    file.try_lock()
}
