//! A folder for temporary files, where a command cannot have a `/tmp` of its own. It is made for one command,
//! measured while it runs, and removed with it, whatever its content. If its guard was killed, a later start
//! removes it.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;

use super::command::{BYTES_A_FILE, SandboxLevel};

/// The parent folder: every system has it, and a guard has no variables that could name another one.
const PLACE: &str = "/tmp";
const NAME: &str = "peacrab-sandbox-";

/// Prefix of the name of a trial's folder.
pub(super) const TRIAL_NAME: &str = "peacrab-trial-";

/// Minimum age of an abandoned folder: a younger one may be about to be used.
const SETTLED: Duration = Duration::from_secs(60);

/// A folder that is locked as long as it is used. Only the lock shows that: process numbers mean nothing to
/// another container that has the same `/tmp`.
pub(super) struct Scratch {
    path: PathBuf,
    _lock: Option<File>,
}

impl Scratch {
    /// Makes the folder, which is not needed where commands are not sandboxed.
    pub(super) fn new(level: SandboxLevel) -> io::Result<Self> {
        let path = Path::new(PLACE).join(format!("{NAME}{:016x}", fastrand::u64(..)));
        if level == SandboxLevel::Off {
            return Ok(Self { path, _lock: None });
        }
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::open(&path)?;
        lock.lock()?;
        Ok(Self { path, _lock: Some(lock) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes that its files take, counted up to `most`. Unreadable folders are left out: the disk
    /// itself is watched, too.
    pub(super) fn bytes(&self, most: u64) -> u64 {
        let mut bytes = 0;
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop()
            && bytes <= most
        {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                // Links are not followed.
                let Ok(found) = entry.metadata() else { continue };
                // As `st_blocks` counts (stat(2)); an empty file takes something, too, and time here.
                bytes += (found.blocks() * 512).max(BYTES_A_FILE);
                if found.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        bytes
    }

    /// Removes the folder. To be called when no process is left that could write there.
    pub(super) fn remove(self) {
        clear(&self.path).ok();
    }
}

/// Removes the unused folders that killed guards and trials of this account have left.
pub fn sweep() {
    let trials = (std::env::temp_dir(), TRIAL_NAME);
    for (place, name) in [(PathBuf::from(PLACE), NAME), trials] {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(name) && is_abandoned(&entry.path())
            {
                match clear(&entry.path()) {
                    Ok(()) => tracing::info!("Removed the files of a killed command in /tmp"),
                    Err(error) => {
                        tracing::warn!(%error, "Cannot remove the temporary files of a command")
                    }
                }
            }
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    // A folder of another account is left alone.
    let Ok(found) = fs::symlink_metadata(folder) else { return false };
    let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    if !found.is_dir() || found.uid() != geteuid().as_raw() || age.is_none_or(|age| age < SETTLED) {
        return false;
    }
    let opened =
        File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder);
    // An unreadable folder was made so by its command, and is abandoned, too.
    opened.map_or(true, |folder| folder.try_lock().is_ok())
}

/// Removes a folder of any depth and with any permissions. Inner folders are moved up first, so that no path
/// grows. Links are not followed.
pub fn clear(top: &Path) -> io::Result<()> {
    let mut moved = 0_u64;
    let mark = fastrand::u64(..);
    open_up(top)?;
    loop {
        let mut had_folders = false;
        for entry in fs::read_dir(top)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            had_folders = true;
            open_up(&entry.path())?;
            for inner in fs::read_dir(entry.path())? {
                let inner = inner?;
                if inner.file_type()?.is_dir() {
                    moved += 1;
                    open_up(&inner.path())?;
                    fs::rename(inner.path(), top.join(format!("{mark:016x}-{moved}")))?;
                } else {
                    fs::remove_file(inner.path())?;
                }
            }
            fs::remove_dir(entry.path())?;
        }
        if !had_folders {
            return fs::remove_dir(top);
        }
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}
