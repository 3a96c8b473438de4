//! The contents of files before they were changed, so that changes can be undone: one blob each, named by
//! its hash, in the home. A blob stands there before the change is written down; one that nothing
//! refers to is swept. Everything here blocks.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::store::ForgottenWords;
use crate::workspace::{FileChange, Hash, READ_BYTES_MAX, Workspace};

/// All blobs together, in bytes; beyond that the oldest go.
const ALL_BYTES_MAX: u64 = 200_000_000;

/// The time after which a change cannot be undone any more.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A blob that nothing refers to may belong to a change that is about to be written down.
pub(super) const GRACE: Duration = Duration::from_secs(3600);

/// The blobs, cheap to clone.
#[derive(Clone)]
pub struct BeforeImages(Arc<BeforeImagesInner>);

struct BeforeImagesInner {
    folder: PathBuf,
    /// Held while a blob is put or swept, as both come from different tasks; never over an await.
    changing: Mutex<()>,
}

impl BeforeImages {
    /// Opens the folder in `home`, for this account alone.
    pub fn open(home: &Path) -> io::Result<Self> {
        let folder = home.join("undo");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self(Arc::new(BeforeImagesInner { folder, changing: Mutex::default() })))
    }

    /// Keeps what the file is before `change`; false if the change cannot be undone, because the file
    /// is larger than 1 MiB or is not what it was.
    pub fn keep_before(&self, workspace: &Workspace, change: &FileChange) -> bool {
        let Some(before) = &change.before else { return true };
        let file = workspace.open_exactly(&change.path);
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

    /// Keeps what a file is, to be compared or put back later.
    pub fn put(&self, hash: &Hash, contents: &[u8]) -> io::Result<()> {
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.0.folder.join(hash.as_str());
        if self.is_kept(&path)? {
            return Ok(());
        }
        let temporary = self.temporary();
        let written = write_new(&temporary, contents)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| File::open(&self.0.folder)?.sync_all());
        if written.is_err() {
            fs::remove_file(&temporary).ok();
        }
        written
    }

    /// To keep several; they reach the disk together, as a card takes its time for each wait.
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

    /// None if it is gone, or is not what its name says.
    pub fn get(&self, hash: &Hash) -> Option<Vec<u8>> {
        let contents = fs::read(self.0.folder.join(hash.as_str())).ok()?;
        (Hash::of(&contents) == *hash).then_some(contents)
    }

    /// Removes those of the named versions that have words in them which somebody wants forgotten. `undo` are the
    /// records that name them.
    pub fn forget(&self, undo: &[String], words: &ForgottenWords) -> io::Result<usize> {
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut forgotten = 0;
        for entry in fs::read_dir(&self.0.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_theirs =
                name.to_str().is_some_and(|name| undo.iter().any(|undo| undo.contains(name)));
            // One that is too large was never kept.
            if is_theirs && words.are_in(&String::from_utf8_lossy(&fs::read(entry.path())?)) {
                fs::remove_file(entry.path())?;
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    /// Removes what nothing refers to (`grace` old or older), what is too old, and the oldest of too
    /// much.
    pub fn sweep(&self, wanted: &HashSet<String>, grace: Duration) -> io::Result<()> {
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.0.folder)? {
            let entry = entry?;
            let found = entry.metadata()?;
            let age = now.duration_since(found.modified()?).unwrap_or_default();
            let is_wanted = entry.file_name().to_str().is_some_and(|name| wanted.contains(name));
            if age >= AGE_MAX || (!is_wanted && age >= grace) {
                fs::remove_file(entry.path())?;
            } else {
                kept.push((age, found.len(), entry.path()));
            }
        }
        kept.sort();
        let mut total = 0;
        for (_, size, path) in kept {
            total += size;
            if total > ALL_BYTES_MAX {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Blobs on their way; none has its name before all are on the disk.
pub struct PendingImages<'a> {
    images: &'a BeforeImages,
    /// As what, and of which name.
    written: Vec<(PathBuf, PathBuf)>,
}

impl PendingImages<'_> {
    /// As [`BeforeImages::put`], but for the disk.
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
