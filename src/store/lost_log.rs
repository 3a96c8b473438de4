//! Looks if the write-ahead log of a database is lost or cannot be read. SQLite takes such a log for one without content, and
//! what was committed since its last checkpoint is gone. Not known here: a log that is gone together with its index, as the
//! last program that closes a database leaves it, and damage in the middle of a log, where a power cut ends one, too.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use super::FILE;
use super::emptied::file_beside;

/// Length of a log's header in bytes (section 4.1 of SQLite's "WAL-mode File Format").
const HEADER_BYTES: usize = 32;

/// The two magic numbers. The last bit tells the order of bytes in the sums.
const MAGIC: u32 = 0x377f_0682;

/// In bytes, the part of the index that SQLite makes first, once it has opened the log.
pub(super) const INDEX_PART: u64 = 32 * 1024;

/// A log whose content is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostLog {
    /// It is gone, and its index is not: SQLite deletes the index first.
    Missing,
    /// Its beginning cannot be read.
    Unreadable,
}

/// Looks for the log of a home in which no daemon runs. None if nothing is known to be lost.
pub fn find_lost_log(home: &Path) -> Option<LostLog> {
    let database = home.join(FILE);
    let size = |path: &Path| fs::metadata(path).map(|file| file.len());
    if size(&database).unwrap_or_default() == 0 {
        return None;
    }
    match read_header(&file_beside(&database, "-wal")) {
        Ok(Some(header)) => (!is_header(&header)).then_some(LostLog::Unreadable),
        Ok(None) => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let index = size(&file_beside(&database, "-shm")).unwrap_or_default();
            (index >= INDEX_PART).then_some(LostLog::Missing)
        }
        Err(_) => None,
    }
}

/// Reads the header of a log. None if the log is empty, as a checkpoint leaves it.
fn read_header(log: &Path) -> io::Result<Option<[u8; HEADER_BYTES]>> {
    let mut header = [0; HEADER_BYTES];
    match File::open(log)?.read_exact(&mut header) {
        Ok(()) => Ok(Some(header)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if the sums of a header are right.
fn is_header(header: &[u8; HEADER_BYTES]) -> bool {
    let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let magic = u32::from_be_bytes(word(0));
    if magic & !1 != MAGIC {
        return false;
    }
    let read: fn([u8; 4]) -> u32 = match magic & 1 {
        1 => u32::from_be_bytes,
        _ => u32::from_le_bytes,
    };
    let (mut first, mut second) = (0_u32, 0_u32);
    for at in (0..HEADER_BYTES - 8).step_by(8) {
        first = first.wrapping_add(read(word(at))).wrapping_add(second);
        second = second.wrapping_add(read(word(at + 4))).wrapping_add(first);
    }
    [first, second] == [24, 28].map(|at| u32::from_be_bytes(word(at)))
}
