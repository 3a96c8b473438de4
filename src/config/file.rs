//! Reading the file, before what stands in it is looked at.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::fault::{Fault, Place};

/// Far more than a config has; keeps a wrong path from filling the memory.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

pub(super) enum Unreadable {
    Absent,
    Io(io::Error),
    TooLong,
    /// The bytes, and how many of them are UTF-8.
    NotUtf8(Vec<u8>, usize),
}

pub(super) fn read_text(file: &Path) -> Result<String, Unreadable> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unreadable::Absent,
            _ => Unreadable::Io(error),
        })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Unreadable::TooLong);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        Unreadable::NotUtf8(error.into_bytes(), valid)
    })
}

impl Unreadable {
    pub(super) fn fault(self, file: &Path) -> Fault {
        let whole = Place::File(file.to_owned());
        match self {
            Self::Absent => Fault::new(whole, "there is no such file"),
            Self::Io(error) => Fault::new(whole, &format!("cannot be read: {error}")),
            Self::TooLong => Fault::new(whole, "is longer than a config can be (1 MiB)"),
            Self::NotUtf8(bytes, _) if matches!(bytes[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) => {
                Fault::new(whole, "is UTF-16; save it as UTF-8")
            }
            Self::NotUtf8(bytes, valid) => {
                Fault::new(Place::at(file, &bytes, valid), "is not UTF-8 here; save it as UTF-8")
            }
        }
    }
}
