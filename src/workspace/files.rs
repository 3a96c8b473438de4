//! Files and folders as callers see them, and the reasons why one cannot be reached.

use std::io;

use cap_std::fs::FileType;

use super::path::{PathError, WorkspacePath};

/// Maximum number of bytes read of a file at once: far above any text written by hand, and small beside the memory of a
/// small board.
pub const READ_BYTES_MAX: u64 = 1024 * 1024;

/// The readers of the prompt that a text goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The owner in a private chat.
    Owner,
    /// Anybody else, or a group.
    Others,
}

/// Words for the model; none of them ends a turn.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("there is no `{0}`")]
    Missing(WorkspacePath),
    #[error("`{0}` leads out of the workspace")]
    Outside(WorkspacePath),
    #[error("`{0}` is a link that leads nowhere")]
    Dangling(WorkspacePath),
    #[error(
        "`{0}` is private: only its owner can reach it, in a private chat; files for everybody lie in `shared/`"
    )]
    Private(WorkspacePath),
    #[error(
        "`{0}` lies in a folder of a former version, which is only read; save it under another name"
    )]
    Former(WorkspacePath),
    #[error("`{0}` is a folder")]
    Folder(WorkspacePath),
    #[error("`{0}` is not a folder")]
    NotAFolder(WorkspacePath),
    #[error("`{0}` is not a regular file")]
    Special(WorkspacePath),
    #[error("`{path}` is too big: {size} bytes, where at most {max} can be handled at once")]
    TooBig { path: WorkspacePath, size: u64, max: u64 },
    #[error("`{0}` is not text")]
    NotText(WorkspacePath),
    #[error(
        "`{0}` has a second name (hard link), so nobody knows which folder it belongs to; make a copy of it \
         and use that"
    )]
    Linked(WorkspacePath),
    #[error("others may have written `{0}`")]
    Untrusted(WorkspacePath),
    #[error("{0}")]
    Name(Box<PathError>),
    #[error("`{0}` was changed by somebody else in the meantime; read it again")]
    Changed(WorkspacePath),
    #[error("cannot reach `{path}`: {cause}")]
    Io { path: WorkspacePath, cause: io::Error },
}

/// Part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePage {
    pub bytes: Vec<u8>,
    /// The size of the whole file, in bytes.
    pub size: u64,
}

/// The entries of a folder, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderListing {
    pub entries: Vec<ListingEntry>,
    /// True if not all names of the folder were read.
    pub cut: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListingEntry {
    /// The name on one line. Control characters, and bytes that are not UTF-8, are U+FFFD.
    pub name: String,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file with its size in bytes.
    File(u64),
    Folder,
    Link,
    /// Pipes, sockets, devices.
    Special,
}

impl FileError {
    pub(super) fn new(path: &WorkspacePath, cause: io::Error) -> Self {
        let path = path.clone();
        match cause.kind() {
            io::ErrorKind::NotFound => Self::Missing(path),
            io::ErrorKind::NotADirectory => Self::NotAFolder(path),
            io::ErrorKind::IsADirectory => Self::Folder(path),
            // cap-std's refusal comes from no system call; the system's own has a number.
            io::ErrorKind::PermissionDenied if cause.raw_os_error().is_none() => {
                Self::Outside(path)
            }
            // A socket cannot be opened.
            _ if cause.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                Self::Special(path)
            }
            _ => Self::Io { path, cause },
        }
    }
}

pub(super) fn entry_kind(kind: FileType, size: impl FnOnce() -> u64) -> EntryKind {
    if kind.is_symlink() {
        EntryKind::Link
    } else if kind.is_dir() {
        EntryKind::Folder
    } else if kind.is_file() {
        EntryKind::File(size())
    } else {
        EntryKind::Special
    }
}

/// `name` on one line, so that no name can pass for words of ours.
pub(super) fn shown(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}
