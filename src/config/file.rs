//! Reads the text of a config file, and opens the files that it names.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::fault::{Fault, FaultPlace};

/// Maximum size of a config file, in bytes: far more than one has. A wrong path cannot fill the memory.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Opens a file to read it. A pipe or a device is an error: to read it might take for ever.
pub(super) fn open_regular(file: &Path) -> io::Result<File> {
    // Otherwise, to open a pipe would wait for a writer.
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(file)?;
    let kind = opened.metadata()?.file_type();
    // The system explains why a folder cannot be read.
    match kind.is_file() || kind.is_dir() {
        true => Ok(opened),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// The UTF-8 byte order mark, with which some editors begin a file.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the text of a file, without a UTF-8 byte order mark.
pub(super) fn read_text(file: &Path) -> Result<String, Fault> {
    let text = read_marked_text(file)?;
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => Ok(text.to_owned()),
        None => Ok(text),
    }
}

/// Returns the text of a file as it is.
pub(super) fn read_marked_text(file: &Path) -> Result<String, Fault> {
    let fault_of_file = |message: &str| Fault::new(FaultPlace::File(file.to_owned()), message);
    let mut bytes = Vec::new();
    let read =
        open_regular(file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(fault_of_file(&match fs::read_link(file) {
                Ok(target) => format!("is a link to {}, which is not there", target.display()),
                Err(_) => "there is no such file".to_owned(),
            }));
        }
        Err(error) => return Err(fault_of_file(&format!("cannot be read: {error}"))),
        Ok(length) if length as u64 > FILE_BYTES_MAX => {
            return Err(fault_of_file("is longer than a config can be (1 MiB)"));
        }
        Ok(_) => {}
    }
    match str::from_utf8(&bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) if matches!(bytes[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) => {
            Err(fault_of_file("is UTF-16; save it as UTF-8"))
        }
        Err(error) => {
            let place = FaultPlace::at(file, &bytes, error.valid_up_to());
            Err(Fault::new(place, "is not UTF-8 here; save it as UTF-8"))
        }
    }
}
