//! The context of a command.

use super::config::Config;
use crate::turn::services::TurnServices;

/// Context of a command.
pub(super) struct CommandScope<'a> {
    pub(super) turns: &'a TurnServices,
    pub(super) config: &'a Config,
    /// True if a turn runs where the command was given.
    pub(super) busy: bool,
    /// Number of all running turns.
    pub(super) running: usize,
    /// True while conversations must not be moved: a turn runs here, a turn anywhere is not in the store yet, or a
    /// conversation is being compacted.
    pub(super) is_unsettled: bool,
}
