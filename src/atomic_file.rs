//! Replaces a small file of the home atomically. Not here: files of the workspace (`workspace`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, lchown};
use std::path::Path;

use rustix::process::geteuid;

/// The mode of a file that only this account may read and write.
pub const PRIVATE: u32 = 0o600;

/// Replaces a file atomically: after a crash it has the old or the new content. Its folder must exist.
pub fn replace(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new_path = folder.join(name);
    // A crash may have left a file there.
    fs::remove_file(&new_path).ok();
    let mut options = OpenOptions::new();
    let mut new_file = options.write(true).create_new(true).mode(mode).open(&new_path)?;
    new_file.write_all(content)?;
    new_file.sync_all()?;
    fs::rename(&new_path, file)?;
    File::open(folder)?.sync_all()
}

/// Changes the owner of files that root has made in a home to the home's account, whose daemon has to read
/// them. Does nothing unless root runs it. Symbolic links are not followed.
pub fn give_to_owner(home: &Path, path: &Path) -> io::Result<()> {
    let owner = fs::metadata(home)?;
    if !geteuid().is_root() || owner.uid() == 0 {
        return Ok(());
    }
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop() {
        let meta = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            meta => meta?,
        };
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                paths.push(entry?.path());
            }
        }
        if meta.uid() != owner.uid() {
            lchown(&path, Some(owner.uid()), Some(owner.gid()))?;
        }
    }
    Ok(())
}
