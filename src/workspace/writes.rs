//! Writes in an open folder: each file is complete or absent, and on the disk before the next step. Knows no workspace.

use std::io::{self, Write};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use rustix::fs::{Mode, OFlags, openat};
use tracing::warn;

use super::path::TEMPORARY_PREFIX;

/// Bounds of the search for leftovers when the workspace is opened: depth and number of entries. Leftovers beyond them
/// stay, hidden.
const SWEEP_DEPTH_MAX: usize = 12;
const SWEEP_ENTRIES_MAX: usize = 50_000;

/// A folder in `folder`, which is no link: somebody may have put one there since it was looked at.
pub(super) fn open_own(folder: &Dir, name: &str) -> io::Result<Dir> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = openat(folder, name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(own.into()))
}

/// Opens a folder below `folder`, made where it is missing. No part of the way is a link.
pub(super) fn make_own<'a>(
    mut folder: Dir,
    names: impl Iterator<Item = &'a str>,
) -> io::Result<Dir> {
    for name in names {
        match folder.create_dir(name) {
            Ok(()) => sync(&folder)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        if !is_folder(&folder, name) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        folder = open_own(&folder, name)?;
    }
    Ok(folder)
}

/// Returns true for a folder, which is no link.
pub(super) fn is_folder(within: &Dir, name: &str) -> bool {
    within.symlink_metadata(name).is_ok_and(|found| found.is_dir())
}

/// Puts a new file in the place of `name`, all at once.
pub(super) fn replace(
    folder: &Dir,
    name: &str,
    contents: &[u8],
    mode: Option<Permissions>,
) -> io::Result<()> {
    let temporary = format!("{TEMPORARY_PREFIX}{:016x}", fastrand::u64(..));
    let written = write_new(folder, &temporary, contents, mode)
        .and_then(|()| folder.rename(&temporary, folder, name))
        .and_then(|()| sync(folder));
    if written.is_err() {
        // After the rename there is nothing to remove.
        let _ = folder.remove_file(&temporary);
    }
    written
}

/// Writes a file that must not exist yet, for this account alone if no `mode` is given.
pub(super) fn write_new(
    folder: &Dir,
    name: &str,
    contents: &[u8],
    mode: Option<Permissions>,
) -> io::Result<()> {
    let mut file =
        folder.open_with(name, OpenOptions::new().write(true).create_new(true).mode(0o600))?;
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode.mode() & 0o777))?;
    }
    file.write_all(contents)?;
    file.sync_all()
}

/// Writes a folder's names to disk.
pub(super) fn sync(folder: &Dir) -> io::Result<()> {
    // A `Dir` itself may be opened as a mere place, which cannot be synced.
    folder.open(".")?.sync_all()
}

/// Removes what writes that were cut short have left.
pub(super) fn sweep(root: &Dir) {
    let mut left = SWEEP_ENTRIES_MAX;
    if let Err(error) = sweep_folder(root, SWEEP_DEPTH_MAX, &mut left) {
        warn!(%error, "Cannot look for leftover temporary files in the workspace");
    }
}

fn sweep_folder(folder: &Dir, depth: usize, left: &mut usize) -> io::Result<()> {
    for entry in folder.entries()? {
        let Some(less) = left.checked_sub(1) else { return Ok(()) };
        *left = less;
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if kind.is_dir() && depth > 0 {
            // What cannot be opened was not written by us.
            if let Ok(inner) = folder.open_dir(Path::new(&name)) {
                sweep_folder(&inner, depth - 1, left)?;
            }
        } else if kind.is_file() && name.to_string_lossy().starts_with(TEMPORARY_PREFIX) {
            folder.remove_file(Path::new(&name))?;
        }
    }
    Ok(())
}
