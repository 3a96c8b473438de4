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
    /// A turn here runs, a turn anywhere has just begun, or a conversation is being summarized: none may move.
    pub(super) is_unsettled: bool,
}
