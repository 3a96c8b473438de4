//! Counts the starts after which the program did not end as it should. Three of them in five minutes lead to the safe
//! mode: channels answer, and nothing acts by itself. An orderly end begins the count anew, and so does a boot: power
//! cuts are no fault of the program.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bus::freshness::since_boot;
use crate::types::safe_mode::SafeMode;
use crate::whole_file;

/// The file within the home.
pub const FILE: &str = "starts.json";

/// Starts after an unexpected end that lead to the safe mode.
pub const STARTS_MAX: usize = 3;

/// Seconds in which they count.
pub const WITHIN_S: u64 = 5 * 60;

/// Starts that are remembered: with a pause of a second between them, as many as count.
const REMEMBERED_MAX: usize = WITHIN_S as usize;

/// The kernel's name of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRecord {
    pub boot: String,
    /// True until an orderly end.
    pub runs: bool,
    /// Starts after an unexpected end, in seconds since the boot, oldest first.
    pub unexpected: Vec<u64>,
    /// The owner knows of the safe mode.
    pub is_reported: bool,
}

impl StartRecord {
    /// Returns the record after a start at this time of this boot.
    pub fn started(self, boot: &str, now_s: u64) -> Self {
        let same_boot = self.boot == boot;
        let mut unexpected = if same_boot { self.unexpected } else { Vec::new() };
        if same_boot && self.runs {
            unexpected.push(now_s);
        }
        unexpected.retain(|start| now_s.saturating_sub(*start) < WITHIN_S);
        let surplus = unexpected.len().saturating_sub(REMEMBERED_MAX);
        unexpected.drain(..surplus);
        let is_reported = self.is_reported && unexpected.len() >= STARTS_MAX;
        Self { boot: boot.to_owned(), runs: true, unexpected, is_reported }
    }

    /// Returns the number of starts that led to the safe mode. None if there is no reason for it.
    pub fn safe_mode(&self) -> Option<usize> {
        (self.unexpected.len() >= STARTS_MAX).then_some(self.unexpected.len())
    }
}

/// Notes a start in a home that is locked. Returns the safe mode if it is due.
pub(super) fn begin(home: &Path) -> Option<SafeMode> {
    let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
    let record = read(home).started(boot.trim(), since_boot().as_secs());
    if let Err(error) = write(home, &record) {
        tracing::warn!(%error, "Cannot record this start, so it does not count for the safe mode");
    }
    record.safe_mode().map(|starts| SafeMode { starts, is_reported: record.is_reported })
}

/// Notes that the owner knows of the safe mode.
pub(super) fn note_reported(home: &Path) {
    let record = StartRecord { is_reported: true, ..read(home) };
    if let Err(error) = write(home, &record) {
        tracing::warn!(%error, "Cannot record that the owner knows about the safe mode");
    }
}

/// Notes an orderly end.
pub(super) fn end(home: &Path) {
    if let Err(error) = write(home, &StartRecord::default()) {
        tracing::warn!(%error, "Cannot record the orderly end, so the next start counts for the safe mode");
    }
}

/// An unreadable record counts as none.
fn read(home: &Path) -> StartRecord {
    let text = fs::read(home.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn write(home: &Path, record: &StartRecord) -> io::Result<()> {
    let text = serde_json::to_vec(record).expect("our own type has string keys");
    whole_file::replace(&home.join(FILE), &text, whole_file::PRIVATE)
}
