//! `[retention]`: how long finished conversations are kept.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::conversation::sessions::Retention;

use super::values::{MB, Within};

/// The retention of finished work. Open work, and all that a model still sees, stays. Records of what
/// was done, such as messages on their way, jobs' runs, actions and costs, are kept for 90 days.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetentionSection {
    /// Days after which a closed conversation, and turns that were summed up, are deleted.
    conversation_days: Within<30, 36_500, 365>,
    /// Size of the database, in MB. Above it, conversations are deleted earlier, the oldest first, but
    /// none of the last 30 days; then records of what was done, but none of the last 32 days.
    database_max_mb: Within<50, 1_000_000, 2_000>,
}

impl RetentionSection {
    pub(super) fn config(&self) -> Retention {
        Retention {
            kept: chrono::Duration::days(i64::from(self.conversation_days.0)),
            database_bytes_max: u64::from(self.database_max_mb.0) * MB,
        }
    }
}
