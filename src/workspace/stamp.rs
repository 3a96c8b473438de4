//! The state of a file by which a later change is noticed without reading it.

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::fs::MetadataExt as _;

/// The clock of a file system ticks in steps of some milliseconds, on some in seconds: what was changed so
/// shortly before it was read may be changed again without another time. (git calls such files racy.)
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Changes whenever a file or folder does. Who writes to a file can set when it was modified, but not when
/// that was set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) modified: (i64, i64),
    pub(super) changed: (i64, i64),
    pub(super) size: u64,
    pub(super) inode: u64,
}

impl From<&std::fs::Metadata> for Stamp {
    fn from(found: &std::fs::Metadata) -> Self {
        Self {
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            size: found.len(),
            inode: found.ino(),
        }
    }
}

impl From<&cap_std::fs::Metadata> for Stamp {
    fn from(found: &cap_std::fs::Metadata) -> Self {
        Self {
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            size: found.len(),
            inode: found.ino(),
        }
    }
}

impl Stamp {
    /// Returns true if any later change makes it another one.
    pub(super) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settled = i64::try_from(now.saturating_sub(SETTLED_AFTER).as_secs());
        settled.is_ok_and(|settled| self.changed.0 < settled)
    }
}
