//! The mark of a home in the names of its backups, so that several homes can have theirs in one folder. It stands in the home
//! and in no backup: a home that is restored on another machine counts as another one.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::atomic_file;
use crate::types::hex::random_hex;

/// The name of the file within the home.
const FILE: &str = "backup-mark";

/// Enough that no two homes of a household have the same, and few enough for a name that is read.
const BYTES: usize = 4;

/// The mark of a home: eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeMark(String);

impl HomeMark {
    /// Returns a mark that no home has.
    pub(super) fn random() -> Self {
        Self(random_hex::<BYTES>())
    }

    /// Returns the mark of a home, which is made if there is none.
    pub fn of(home: &Path) -> io::Result<Self> {
        Self::known_or(home, &Self::random())
    }

    /// Returns the mark of a home. If there is none, this one becomes it.
    pub(super) fn known_or(home: &Path, new: &Self) -> io::Result<Self> {
        let file = home.join(FILE);
        match fs::read(&file) {
            Ok(text) => {
                let known = String::from_utf8(text).ok().and_then(|text| Self::parse(text.trim()));
                if let Some(mark) = known {
                    return Ok(mark);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
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
