//! Checks of the paths and lengths in a call of a file tool, as far as that is possible without the disk.

use crate::memory::facts_file::is_facts_file;
use crate::tools::CallPlace;
use crate::workspace::{FileError, READ_BYTES_MAX, WorkspacePath};

/// The use of a path by a call that changes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tools) enum PathUse {
    /// The call may make the file, whose name must then be what it seems.
    New,
    Existing,
}

/// Checks the path of a file that a call reads, without the disk. The error explains to the model what is wrong.
pub(in crate::tools) fn check_read(
    path: &WorkspacePath,
    place: &CallPlace<'_>,
) -> Result<(), String> {
    let arrived_here =
        |path: &WorkspacePath| place.arrived_here.iter().any(|own| own == path.as_str());
    match place.reached(path) {
        // What arrived here can be read, wherever it lies.
        Err(FileError::Private(path)) if arrived_here(&path) => Ok(()),
        reached => reached.map(drop).map_err(|error| sentence(&error)),
    }
}

/// Checks the path of a file that a call changes, without the disk. The error explains to the model what is wrong.
pub(in crate::tools) fn check_change(
    path: &WorkspacePath,
    used_for: PathUse,
    place: &CallPlace<'_>,
) -> Result<(), String> {
    if used_for == PathUse::New {
        path.check_new().map_err(|error| sentence(&error))?;
    }
    let path = place.reached(path).map_err(|error| sentence(&error))?;
    check_maker(&path)
}

/// Returns an error for a file that the program makes.
pub(super) fn check_maker(path: &WorkspacePath) -> Result<(), String> {
    match is_facts_file(path) {
        true => Err(format!(
            "{path} is made by the program from the facts that it keeps. Use remember, or tell the person of /remember \
             and /forget."
        )),
        false => Ok(()),
    }
}

/// Returns an error for a text that is too long for a file.
pub(super) fn check_length(path: &WorkspacePath, length: u64) -> Result<(), String> {
    match length > READ_BYTES_MAX {
        true => Err(format!(
            "{path} would have {length} bytes; at most {READ_BYTES_MAX} can be written. Use several \
             files."
        )),
        false => Ok(()),
    }
}

/// Returns an error as a sentence.
pub(super) fn sentence(error: &impl ToString) -> String {
    let text = error.to_string();
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", rest.as_str())
}
