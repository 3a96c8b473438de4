//! Looks at the header of a database that cannot be opened. SQLite names damage there by whatever fails first.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::StoreError;

/// Length of the header in bytes (section 1.3 of SQLite's "Database File Format", also of what follows).
const BYTES: usize = 100;

const MAGIC: &[u8] = b"SQLite format 3\0";

/// Returns the damage if the header of a file is none that SQLite writes. None if nothing is known against it.
pub(super) fn header_damage(database: &Path) -> Option<StoreError> {
    let mut header = [0; BYTES];
    File::open(database).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let schema_format = word(44);
    let encoding = word(56);
    let user_version = word(60);
    let is_valid = header.starts_with(MAGIC)
        // The shares of a page that its cells may take are fixed.
        && header[21..24] == [64, 32, 32]
        && schema_format <= 4
        && encoding <= 3
        && i32::try_from(user_version).is_ok()
        // Reserved.
        && header[72..92].iter().all(|byte| *byte == 0);
    (!is_valid).then(|| StoreError::Corrupt("its header cannot be read".to_owned()))
}
