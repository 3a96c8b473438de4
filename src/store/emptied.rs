//! Databases without content: one that has lost it, which is never begun anew, and one that a failed start has not written.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::OpenError;

/// Names in a home that exist since its first start. The database is complete before they are made.
const LEFT_BY_FIRST_START: [&str; 2] = ["ballast", "undo"];

/// Returns an error if a database has lost its content: the file is empty or gone, and its log is not, or the home was in
/// use. SQLite would begin a new one in it, and delete its log.
pub(super) fn refuse_emptied(path: &Path) -> Result<(), OpenError> {
    let has_log = has_log(path);
    let was_used = || path.parent().is_some_and(was_used);
    match fs::metadata(path) {
        Ok(file) if file.len() > 0 => Ok(()),
        Ok(_) if has_log || was_used() => Err(OpenError::Emptied { path: path.to_owned() }),
        Err(error) if error.kind() == ErrorKind::NotFound && has_log => {
            Err(OpenError::LogAlone { path: path.to_owned() })
        }
        Err(error) if error.kind() == ErrorKind::NotFound && was_used() => {
            Err(OpenError::Gone { path: path.to_owned() })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns true if a daemon has run in a home, with or without its database now. A restored home has these names, too, and
/// its database before them.
pub(super) fn was_used(home: &Path) -> bool {
    LEFT_BY_FIRST_START.iter().any(|name| home.join(name).exists())
}

/// Deletes the database that a failed start has made and not written: the next one would take it for one that has lost its
/// content. A link that leads to it stays.
pub(super) fn delete_unwritten(path: &Path) {
    let file = resolve_links(path);
    if !has_log(&file) && fs::metadata(&file).is_ok_and(|file| file.len() == 0) {
        fs::remove_file(&file).ok();
    }
}

/// Returns true if a database has a write-ahead log with content.
pub(super) fn has_log(path: &Path) -> bool {
    fs::metadata(file_beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// Returns the file of SQLite that belongs to a database: its name is the database's with this ending. If the database is a
/// link, it is beside the file that the link leads to.
pub(super) fn file_beside(database: &Path, ending: &str) -> PathBuf {
    let mut beside = resolve_links(database).into_os_string();
    beside.push(ending);
    beside.into()
}

/// Returns the file that a link leads to, which need not exist. Other paths stay as they are.
fn resolve_links(path: &Path) -> PathBuf {
    let Ok(target) = fs::read_link(path) else { return path.to_owned() };
    let beside_link = || path.parent().unwrap_or(Path::new(".")).join(target);
    path.canonicalize().unwrap_or_else(|_| beside_link())
}
