//! The content of a new workspace: `workspace-template/`, which is inside the binary.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::Context;
use cap_std::fs::Dir;
use include_dir::include_dir;

use super::path::TEMPORARY_PREFIX;
use super::writes::write_new;

pub(super) static TEMPLATE: include_dir::Dir<'_> =
    include_dir!("$CARGO_MANIFEST_DIR/workspace-template");

/// Returns the texts of the template's files, by their paths.
pub fn files() -> BTreeMap<&'static str, &'static [u8]> {
    let (mut folders, mut found) = (vec![&TEMPLATE], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        folders.extend(folder.dirs());
        let named = folder.files().map(|file| {
            (file.path().to_str().expect("the template's names are ASCII"), file.contents())
        });
        found.extend(named);
    }
    found
}

/// Makes the folder `root`, for this account alone, unless it exists.
pub(super) fn make_root(root: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(root)
        .with_context(|| format!("cannot make the workspace {}", root.display()))
}

/// Fills an empty workspace, or one that a crash left half filled; touches no other.
pub(super) fn fill(root: &Dir) -> io::Result<()> {
    let unfinished = format!("{TEMPORARY_PREFIX}template");
    if root.entries()?.next().is_none() {
        write_new(root, &unfinished, b"", None)?;
    } else if !root.try_exists(&unfinished)? {
        return Ok(());
    }
    fill_folder(root, &TEMPLATE)?;
    root.remove_file(&unfinished)
}

fn fill_folder(root: &Dir, folder: &include_dir::Dir<'_>) -> io::Result<()> {
    for folder in folder.dirs() {
        root.create_dir_all(folder.path())?;
        fill_folder(root, folder)?;
    }
    for file in folder.files() {
        let name = file.path().to_str().expect("the template's names are ASCII");
        match write_new(root, name, file.contents(), None) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
