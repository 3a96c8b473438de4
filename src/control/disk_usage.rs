//! The daemon's use of the disk: the size of its database, and the bytes written since the start, by writer.

use serde::{Deserialize, Serialize};

use crate::process::{DiskWriter, written_by};
use crate::store::{DatabasePages, Store, StoreError};

/// Bytes on the disk: the size of the database, and all that was written since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUsage {
    pub database: u64,
    pub written_by_store: u64,
    /// Files of the workspace, backups and all else that the daemon itself writes.
    pub written_as_files: u64,
    /// Commands of the shell and other programs, once they have ended.
    pub written_by_programs: u64,
}

impl DiskUsage {
    pub(super) async fn measure(store: &Store) -> Result<Self, StoreError> {
        let written_by_store = store.written();
        Ok(Self {
            database: store.read(DatabasePages::bytes).await?,
            written_by_store,
            written_as_files: written_by(DiskWriter::Process).saturating_sub(written_by_store),
            written_by_programs: written_by(DiskWriter::Programs),
        })
    }

    /// Returns the bytes written in a day, extrapolated from the `hours` since the start. None for less than an
    /// hour, which would be a guess.
    pub fn daily(self, hours: u64) -> Option<Self> {
        let daily = |bytes: u64| bytes.saturating_mul(24) / hours;
        (hours > 0).then(|| Self {
            database: self.database,
            written_by_store: daily(self.written_by_store),
            written_as_files: daily(self.written_as_files),
            written_by_programs: daily(self.written_by_programs),
        })
    }

    /// Returns all bytes that were written.
    pub fn written(self) -> u64 {
        self.written_by_store + self.written_as_files + self.written_by_programs
    }
}
