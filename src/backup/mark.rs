//! The mark of a home in the names of its backups, so that several homes can have theirs in one folder. It stands in the home
//! and in no backup: a home that is restored on another machine counts as another one.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};

use crate::atomic_file;
use crate::types::hex::{hex, random_hex};

/// The name of the file within the home.
const FILE: &str = "backup-mark";

/// The file that identifies the machine (machine-id(5)).
const MACHINE: &str = "/etc/machine-id";

/// Enough that no two homes of a household have the same, and few enough for a name that is read.
const BYTES: usize = 4;

/// The disk takes nothing now. Other errors may hide a mark that is there.
const UNWRITABLE: [ErrorKind; 3] =
    [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::ReadOnlyFilesystem];

/// The mark of a home: eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeMark(String);

impl HomeMark {
    /// Returns the mark of a home, which is made if there is none.
    pub fn of(home: &Path) -> io::Result<Self> {
        Self::known_or(home, &Self(random_hex::<BYTES>()))
    }

    /// Returns the mark of a home. If there is none, and a full disk or one that is read-only takes none, it is one that
    /// stays the same for this home, and becomes its mark as soon as it can be written: no backup with it is left behind.
    pub fn of_or_spare(home: &Path) -> io::Result<Self> {
        let spare = Self::spare(home)?;
        match Self::known_or(home, &spare) {
            Err(error) if UNWRITABLE.contains(&error.kind()) => {
                tracing::warn!(%error, "Cannot write the mark of this home's backups, will use it unwritten");
                Ok(spare)
            }
            found => found,
        }
    }

    /// Returns a mark from what tells a home from all others, and stays the same over restarts. Numbers of devices would
    /// not.
    fn spare(home: &Path) -> io::Result<Self> {
        let about = fs::metadata(home)?;
        // Not every file system and machine has these.
        let made = about.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let machine = fs::read(MACHINE).unwrap_or_default();
        let mut digest = Sha256::new();
        digest.update(about.ino().to_be_bytes());
        digest.update(made.unwrap_or_default().as_nanos().to_be_bytes());
        digest.update(machine);
        digest.update(home.canonicalize()?.as_os_str().as_bytes());
        Ok(Self(hex(&digest.finalize()[..BYTES])))
    }

    /// Returns the mark of a home. If there is none, this one becomes it.
    fn known_or(home: &Path, new: &Self) -> io::Result<Self> {
        let file = home.join(FILE);
        match fs::read(&file) {
            Ok(text) => {
                let known = String::from_utf8(text).ok().and_then(|text| Self::parse(text.trim()));
                if let Some(mark) = known {
                    return Ok(mark);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        atomic_file::replace(&file, format!("{new}\n").as_bytes(), atomic_file::PRIVATE)?;
        atomic_file::give_to_owner(home, &file)?;
        Ok(new.clone())
    }

    /// Returns the mark of a home that has one.
    pub(super) fn known(home: &Path) -> Option<Self> {
        Self::parse(fs::read_to_string(home.join(FILE)).ok()?.trim())
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_digit = |sign: u8| matches!(sign, b'0'..=b'9' | b'a'..=b'f');
        let is_mark = text.len() == 2 * BYTES && text.bytes().all(is_digit);
        is_mark.then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for HomeMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
