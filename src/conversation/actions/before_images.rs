//! The contents of files before they were changed, so that changes can be undone: one blob each in the home,
//! named by its hash. A blob is written before its change is recorded; an unreferenced one is deleted. All
//! functions block.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::store::ForgottenWords;
use crate::workspace::{FileChange, Hash, READ_BYTES_MAX, Workspace};

/// Bounds of the blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoLimits {
    /// Time after which a change can no longer be undone.
    pub age_max: Duration,
    /// Maximum size of all blobs together, in bytes. Beyond it the oldest are deleted.
    pub bytes_max: u64,
}

impl Default for UndoLimits {
    fn default() -> Self {
        Self { age_max: Duration::from_secs(30 * 24 * 3600), bytes_max: 200_000_000 }
    }
}

/// Time for which an unreferenced blob stays, because its change may be about to be recorded.
pub(super) const GRACE: Duration = Duration::from_secs(3600);

/// The blobs, cheap to clone.
#[derive(Clone)]
pub struct BeforeImages(Arc<BeforeImagesInner>);

struct BeforeImagesInner {
    folder: PathBuf,
    limits: UndoLimits,
    /// Held while blobs are written or deleted, which different tasks do. Never held over an await.
    changing: Mutex<()>,
}

impl BeforeImages {
    /// Opens the folder in `home`, which only this user can access.
    pub fn open(home: &Path) -> io::Result<Self> {
        Self::open_within(home, UndoLimits::default())
    }

    /// As [`Self::open`], with other bounds.
    pub fn open_within(home: &Path, limits: UndoLimits) -> io::Result<Self> {
        let folder = home.join("undo");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self(Arc::new(BeforeImagesInner { folder, limits, changing: Mutex::default() })))
    }

    /// Stores the content of the file before `change`. Returns false if the change cannot be undone, because the
    /// file is larger than 1 MiB or has changed.
    pub fn keep_before(&self, workspace: &Workspace, change: &FileChange) -> bool {
        let Some(before) = &change.before else { return true };
        let file = workspace.open_without_links(&change.path);
        let Ok(contents) = file.and_then(|file| file.read_up_to(READ_BYTES_MAX)) else {
            return false;
        };
        if Hash::of(&contents) != *before {
            return false;
        }
        match self.put(before, &contents) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(path = %change.path, %error, "Cannot save the old version of a file");
                false
            }
        }
    }

    /// Stores the content of a file, to be compared or restored later.
    pub fn put(&self, hash: &Hash, contents: &[u8]) -> io::Result<()> {
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.0.folder.join(hash.as_str());
        if self.is_kept(&path)? {
            return Ok(());
        }
        let temporary = self.temporary();
        let result = write_new(&temporary, contents)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| File::open(&self.0.folder)?.sync_all());
        if result.is_err() {
            fs::remove_file(&temporary).ok();
        }
        result
    }

    /// Returns a batch of blobs that are synced together, because each sync of an SD card is slow.
    pub fn several(&self) -> PendingImages<'_> {
        PendingImages { images: self, written: Vec::new() }
    }

    /// Returns true if the blob exists. Its age then counts from now.
    fn is_kept(&self, path: &Path) -> io::Result<bool> {
        match File::options().append(true).open(path) {
            Ok(file) => file.set_modified(SystemTime::now()).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    fn temporary(&self) -> PathBuf {
        self.0.folder.join(format!("tmp-{:016x}", fastrand::u64(..)))
    }

    /// Returns a blob. None if it does not exist, or does not match its hash.
    pub fn get(&self, hash: &Hash) -> Option<Vec<u8>> {
        let contents = fs::read(self.0.folder.join(hash.as_str())).ok()?;
        (Hash::of(&contents) == *hash).then_some(contents)
    }

    /// Deletes the blobs named in the records `undo` that contain words which somebody wants forgotten. Returns their
    /// number.
    pub fn forget(&self, undo: &[String], words: &ForgottenWords) -> io::Result<usize> {
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut deleted = 0;
        for entry in fs::read_dir(&self.0.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_named =
                name.to_str().is_some_and(|name| undo.iter().any(|undo| undo.contains(name)));
            // Blobs are small: files that are too large are never stored.
            if is_named && words.are_in(&String::from_utf8_lossy(&fs::read(entry.path())?)) {
                fs::remove_file(entry.path())?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Deletes blobs that are unreferenced for at least `grace`, that are too old, or that exceed the total
    /// size, oldest first.
    pub fn sweep(&self, wanted: &HashSet<String>, grace: Duration) -> io::Result<()> {
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let UndoLimits { age_max, bytes_max } = self.0.limits;
        let now = SystemTime::now();
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.0.folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let age = now.duration_since(metadata.modified()?).unwrap_or_default();
            let is_wanted = entry.file_name().to_str().is_some_and(|name| wanted.contains(name));
            if age >= age_max || (!is_wanted && age >= grace) {
                fs::remove_file(entry.path())?;
            } else {
                kept.push((age, metadata.len(), entry.path()));
            }
        }
        kept.sort();
        let mut total = 0;
        for (_, size, path) in kept {
            total += size;
            if total > bytes_max {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// A batch of blobs. None gets its final name before all are on the disk.
pub struct PendingImages<'a> {
    images: &'a BeforeImages,
    /// Temporary and final paths.
    written: Vec<(PathBuf, PathBuf)>,
}

impl PendingImages<'_> {
    /// Writes a blob like [`BeforeImages::put`], without a sync.
    pub fn put(&mut self, hash: &Hash, contents: &[u8]) -> io::Result<()> {
        let BeforeImages(inner) = self.images;
        let _alone = inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = inner.folder.join(hash.as_str());
        if self.images.is_kept(&path)? {
            return Ok(());
        }
        let temporary = self.images.temporary();
        match write_new(&temporary, contents) {
            Ok(_) => self.written.push((temporary, path)),
            Err(error) => {
                fs::remove_file(&temporary).ok();
                return Err(error);
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<()> {
        let BeforeImages(inner) = self.images;
        if self.written.is_empty() {
            return Ok(());
        }
        let folder = File::open(&inner.folder)?;
        rustix::fs::syncfs(&folder)?;
        let _alone = inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((temporary, path)) = self.written.pop() {
            fs::rename(&temporary, &path).inspect_err(|_| drop(fs::remove_file(&temporary)))?;
        }
        folder.sync_all()
    }
}

impl Drop for PendingImages<'_> {
    fn drop(&mut self) {
        for (temporary, _) in &self.written {
            fs::remove_file(temporary).ok();
        }
    }
}

fn write_new(path: &Path, contents: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(contents)?;
    Ok(file)
}
