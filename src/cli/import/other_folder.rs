//! Reads the folder of another bot. Nothing here follows a link in it, waits for a pipe, or reads more than it may.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// The UTF-8 byte order mark, with which some editors begin a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// An open folder.
pub(super) struct OtherFolder(Dir);

/// The lines of a text.
pub(super) struct DecodedLines {
    pub(super) text: String,
    /// Lines that are no UTF-8.
    pub(super) skipped: usize,
}

/// The reason why something was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadFile {
    #[error("there is none")]
    Missing,
    #[error("a link")]
    Link,
    #[error("not a file")]
    NoFile,
    #[error("has a second name")]
    ManyNames,
    #[error("too large")]
    TooLarge,
    #[error("cannot be read: {cause}")]
    Io { cause: io::Error },
}

impl From<io::Error> for UnreadFile {
    fn from(cause: io::Error) -> Self {
        Self::Io { cause }
    }
}

impl OtherFolder {
    /// Opens the folder that a person has named.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(path, ambient_authority()).map(Self)
    }

    /// Opens a folder below this one. An empty path is this one.
    pub(super) fn below(&self, path: &Path) -> Result<Self, UnreadFile> {
        let mut folder = self.0.try_clone()?;
        for name in path {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = openat(&folder, name, flags, Mode::empty());
            let opened = opened.map_err(|error| unread(&folder, name, error))?;
            folder = Dir::from_std_file(File::from(opened));
        }
        Ok(Self(folder))
    }

    /// The entries, sorted by name, and the last error.
    pub(super) fn entries(&self) -> (Vec<DirEntry>, Option<io::Error>) {
        let (mut read, mut failed) = (Vec::new(), None);
        match self.0.entries() {
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok(entry) => read.push(entry),
                        Err(error) => failed = Some(error),
                    }
                }
            }
            Err(error) => failed = Some(error),
        }
        read.sort_by_key(DirEntry::file_name);
        (read, failed)
    }

    /// Reads a file of at most `bytes_max` bytes in this folder.
    pub(super) fn read(&self, name: &OsStr, bytes_max: u64) -> Result<Vec<u8>, UnreadFile> {
        // Otherwise, to open a pipe would wait for a writer.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.0, name, flags, Mode::empty());
        let file = File::from(opened.map_err(|error| unread(&self.0, name, error))?);
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(UnreadFile::NoFile);
        }
        // The other name may be anywhere.
        if meta.nlink() > 1 {
            return Err(UnreadFile::ManyNames);
        }
        let mut bytes = Vec::new();
        if meta.len() <= bytes_max {
            file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        }
        match meta.len() > bytes_max || bytes.len() as u64 > bytes_max {
            true => Err(UnreadFile::TooLarge),
            false => Ok(bytes),
        }
    }

    /// As [`Self::read`], for a text. A byte order mark is taken off.
    pub(super) fn read_text(&self, name: &OsStr, bytes_max: u64) -> Result<String, UnreadFile> {
        let text = String::from_utf8(self.read(name, bytes_max)?);
        let mut text = text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if text.starts_with(BYTE_ORDER_MARK) {
            text.remove(0);
        }
        Ok(text)
    }

    /// As [`Self::read_text`], without the lines that are no UTF-8.
    pub(super) fn read_lines(
        &self,
        name: &OsStr,
        bytes_max: u64,
    ) -> Result<DecodedLines, UnreadFile> {
        // A long conversation is not kept twice.
        let mut read = match String::from_utf8(self.read(name, bytes_max)?) {
            Ok(text) => DecodedLines { text, skipped: 0 },
            Err(error) => {
                let mut read = DecodedLines { text: String::new(), skipped: 0 };
                for line in error.as_bytes().split_inclusive(|byte| *byte == b'\n') {
                    match str::from_utf8(line) {
                        Ok(line) => read.text.push_str(line),
                        Err(_) => read.skipped += 1,
                    }
                }
                read
            }
        };
        if read.text.starts_with(BYTE_ORDER_MARK) {
            read.text.remove(0);
        }
        Ok(read)
    }
}

fn unread(folder: &Dir, name: &OsStr, error: Errno) -> UnreadFile {
    let is_link = || folder.symlink_metadata(name).is_ok_and(|found| found.is_symlink());
    match error {
        Errno::NOENT => UnreadFile::Missing,
        // A socket cannot be opened.
        Errno::NXIO => UnreadFile::NoFile,
        Errno::LOOP | Errno::NOTDIR if is_link() => UnreadFile::Link,
        error => io::Error::from(error).into(),
    }
}
