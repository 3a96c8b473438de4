//! `[backup]`: backups that the daemon makes by itself.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::backup::schedule::Config;

use super::reading::ConfigSource;
use super::values::{At, Length, Text, Within, shown};

/// Once an hour and once in a month.
const EVERY_LEAST: u64 = 3_600;
const EVERY_MOST: u64 = 30 * 24 * 3_600;

/// Regular backups of the store and the workspace. The config and the keys are not in them. Without
/// `to`, there are none; `peacrab backup` makes one at any time.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BackupSection {
    /// The folder for the backups: an absolute path, best on another disk. Default: none.
    to: Option<At<PathBuf>>,
    /// The time between two backups: a number with h or d, from 1h to 30d.
    #[schemars(with = "String", extend("default" = shown(EVERY.as_secs())))]
    every: Option<Text<Length<EVERY_LEAST, EVERY_MOST>>>,
    /// The number of backups that are kept in the folder. Older ones are deleted.
    keep: Within<1, 1_000, 7>,
}

/// Once a day.
const EVERY: Duration = Duration::from_secs(24 * 3_600);

impl BackupSection {
    pub(super) fn config(self, source: &ConfigSource<'_>) -> Option<Config> {
        let to = self.to?;
        if !to.value.is_absolute() {
            source.refuse(&to, "must be an absolute path");
            return None;
        }
        let every = self.every.map_or(EVERY, |length| length.0.0);
        Some(Config {
            folder: to.value,
            every,
            keep: usize::try_from(self.keep.0).unwrap_or(usize::MAX),
        })
    }
}
