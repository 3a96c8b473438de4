//! Counts starts after unexpected ends of the program. Three of them in five minutes lead to the safe mode:
//! channels answer, and nothing acts by itself. An orderly end resets the count, and so does a boot, because a
//! power cut is no fault of the program.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::atomic_file;
use crate::bus::freshness::since_boot;
use crate::store;
use crate::types::safe_mode::SafeMode;

/// The file within the home.
pub const FILE: &str = "starts.json";

/// Number of starts after unexpected ends that leads to the safe mode.
pub const STARTS_MAX: usize = 3;

/// Seconds within which starts count.
pub const WITHIN_S: u64 = 5 * 60;

/// Maximum number of remembered starts: with a pause of a second between them, all that count.
const REMEMBERED_MAX: usize = WITHIN_S as usize;

/// The file with the kernel's id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRecord {
    pub boot: String,
    /// True until an orderly end or the refusal of the start, so a start that finds it true follows an unexpected end.
    pub runs: bool,
    /// Starts after an unexpected end, in seconds since the boot, oldest first.
    pub unexpected: Vec<u64>,
    /// True if the owner was notified of the safe mode.
    pub is_reported: bool,
    /// The damage of the store by which the last start failed.
    #[serde(default)]
    pub damage: FoundDamage,
    /// True from the start that finds the log of the store lost, which no later one can see, until the owner is told.
    #[serde(default)]
    pub is_log_lost: bool,
}

/// Damage of the store by which a start failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundDamage {
    #[default]
    None,
    /// The owner could not be told.
    Untold,
    Told,
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
        Self { boot: boot.to_owned(), runs: true, unexpected, is_reported, ..self }
    }

    /// Returns true if the last start was refused with an error. An orderly end leaves no boot.
    pub fn was_refused(&self) -> bool {
        !self.runs && !self.boot.is_empty()
    }

    /// Returns the number of starts that led to the safe mode. None if there is no reason for it.
    pub fn safe_mode(&self) -> Option<usize> {
        (self.unexpected.len() >= STARTS_MAX).then_some(self.unexpected.len())
    }
}

/// Returns the record of a home. None if no daemon has been started there.
pub fn last_record(home: &Path) -> Option<StartRecord> {
    home.join(FILE).exists().then(|| read_record(home))
}

/// Records a start in a locked home. Returns the safe mode if this start leads to it.
pub(super) fn begin(home: &Path) -> Option<SafeMode> {
    let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
    let record = read_record(home).started(boot.trim(), since_boot().as_secs());
    if let Err(error) = write_record(home, &record) {
        tracing::warn!(%error, "Cannot record this start, so it does not count for the safe mode");
    }
    record.safe_mode().map(|starts| SafeMode { starts, is_reported: record.is_reported })
}

/// Records that this start was refused with an error, which is no crash. Earlier ones still count.
pub(super) fn note_refusal(home: &Path) {
    let record = StartRecord { runs: false, ..read_record(home) };
    if let Err(error) = write_record(home, &record) {
        tracing::warn!(%error, "Cannot record that this start was refused, so the next one counts for the safe mode");
    }
}

/// Records that the owner was notified of the safe mode.
pub(super) fn note_reported(home: &Path) {
    let record = StartRecord { is_reported: true, ..read_record(home) };
    if let Err(error) = write_record(home, &record) {
        tracing::warn!(%error, "Cannot record that the owner knows about the safe mode");
    }
}

/// Writes the record only if it changes, as most starts change nothing of it.
fn change_record(home: &Path, change: impl FnOnce(StartRecord) -> StartRecord) -> io::Result<()> {
    let known = read_record(home);
    let changed = change(known.clone());
    if changed == known { Ok(()) } else { write_record(home, &changed) }
}

/// Returns true if the last start failed because the store is damaged, and that store is still there.
pub fn has_damage(home: &Path) -> bool {
    found_damage(home) != FoundDamage::None && home.join(store::FILE).exists()
}

/// Forgets the damage and the lost log of a store that a restore has replaced.
pub fn forget_damage(home: &Path) {
    note_damage(home, FoundDamage::None);
    note_lost_log(home, false);
}

/// Returns the damage by which the last start failed.
pub(super) fn found_damage(home: &Path) -> FoundDamage {
    read_record(home).damage
}

/// Records the damage by which this start fails, or that there is none.
pub(super) fn note_damage(home: &Path, damage: FoundDamage) {
    let change = |known| StartRecord { damage, ..known };
    if let Err(error) = change_record(home, change) {
        tracing::warn!(%error, "Cannot record the damage of the store, or its end");
    }
}

/// Returns true if the owner has to hear that the log of the store was lost.
pub(super) fn is_log_lost(home: &Path) -> bool {
    read_record(home).is_log_lost
}

/// Records that the owner has to hear that the log of the store was lost, or no longer has to.
pub(super) fn note_lost_log(home: &Path, is_log_lost: bool) {
    let change = |known| StartRecord { is_log_lost, ..known };
    if let Err(error) = change_record(home, change) {
        tracing::warn!(%error, "Cannot record if the owner has to hear of the lost log of the database");
    }
}

/// Records an orderly end.
pub fn end(home: &Path) {
    let record = StartRecord { is_log_lost: is_log_lost(home), ..StartRecord::default() };
    if let Err(error) = write_record(home, &record) {
        tracing::warn!(%error, "Cannot record the orderly end, so the next start counts for the safe mode");
    }
}

/// Reads the record. An unreadable one counts as empty.
fn read_record(home: &Path) -> StartRecord {
    let text = fs::read(home.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn write_record(home: &Path, record: &StartRecord) -> io::Result<()> {
    let text = serde_json::to_vec(record).expect("our own type has string keys");
    atomic_file::replace(&home.join(FILE), &text, atomic_file::PRIVATE)
}
