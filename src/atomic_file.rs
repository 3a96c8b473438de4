//! Replaces a small file of the home atomically. Not here: files of the workspace (`workspace`).

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chownat, fchown, fstat, openat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

/// The mode of a file that only this account may read and write.
pub const PRIVATE: u32 = 0o600;

/// Replaces a file atomically: after a crash it has the old or the new content. Its folder must exist. A failure changes
/// nothing. If root runs it in a home of another account, the file is that account's.
pub fn replace(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let new_path = with_ending(file, ".new");
    // A crash may have left a file there.
    fs::remove_file(&new_path).ok();
    let mut options = OpenOptions::new();
    let mut new_file = options.write(true).create_new(true).mode(mode).open(&new_path)?;
    if geteuid().is_root()
        && let Some(owner) = intended_owner(file, folder)
    {
        // Some file systems know no owners.
        let (user, group) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
        fchown(&new_file, Some(user), Some(group)).ok();
    }
    let written = new_file.write_all(content).and_then(|()| new_file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&new_path, file)) {
        // A full disk takes the file, but not its content.
        fs::remove_file(&new_path).ok();
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

/// Returns the path of a file beside this one, whose name is this one's with an ending.
pub fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns the owner of the file that is replaced; of its folder, if root has left that file there, or there is none.
fn intended_owner(file: &Path, folder: &Path) -> Option<Metadata> {
    let replaced = fs::symlink_metadata(file).ok();
    let is_others = |about: &Metadata| about.uid() != 0;
    let of_folder = || fs::metadata(folder).ok().filter(is_others);
    replaced.clone().filter(is_others).or_else(of_folder).or(replaced)
}

/// Depth of the folders whose owner is changed. Each of them is held open.
const DEPTH_MAX: usize = 256;

/// Changes the owner of files that root has made in a home to the home's account, whose daemon has to read
/// them. Does nothing unless root runs it. Nobody can lead it elsewhere meanwhile: symbolic links are not followed, and
/// files with several names (hard links) stay as they are.
pub fn give_to_owner(home: &Path, path: &Path) -> io::Result<()> {
    let owner = fs::metadata(home)?;
    if !geteuid().is_root() || owner.uid() == 0 {
        return Ok(());
    }
    match openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        found => give(found?, &owner, DEPTH_MAX),
    }
}

fn give(found: OwnedFd, owner: &Metadata, depth: usize) -> io::Result<()> {
    let meta = fstat(&found)?;
    let is_folder = FileType::from_raw_mode(meta.st_mode).is_dir();
    if meta.st_uid != owner.uid() && (is_folder || meta.st_nlink == 1) {
        let (user, group) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
        chownat(&found, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
    }
    if !is_folder || depth == 0 {
        return Ok(());
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(&found, ".", flags, Mode::empty())?;
    drop(found);
    let entries = Dir::read_from(&folder)?.collect::<Result<Vec<_>, _>>()?;
    for entry in entries {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            found => give(found?, owner, depth - 1)?,
        }
    }
    Ok(())
}
