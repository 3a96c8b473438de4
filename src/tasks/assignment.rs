//! The assignment of a background task: a row of the journal that waits for a turn.

use chrono::Utc;
use rusqlite::Connection;

use crate::bus::journal::{self, RowId};
use crate::conversation::task_sessions::SessionTerms;
use crate::types::message::{Address, Cause, DedupKey, Inbound, InboundContent};
use crate::types::origin::TaskId;
use crate::types::source::SourceSpan;

/// The assignment of a task.
pub(super) struct Assignment<'a> {
    pub(super) text: &'a str,
    /// The sources of the text. Empty if the cause names its author.
    pub(super) sources: Vec<SourceSpan>,
    pub(super) cause: Cause,
    pub(super) key: DedupKey,
    /// The address for the result.
    pub(super) to: Address,
}

/// Starts a task: adds its assignment to the journal, where it waits for a turn.
pub(super) fn start(
    store: &Connection,
    task: TaskId,
    terms: &SessionTerms,
    assignment: Assignment<'_>,
) -> rusqlite::Result<RowId> {
    let inbound = Inbound {
        key: assignment.key,
        at: Utc::now(),
        from: assignment.to,
        chat_kind: terms.chat_kind,
        within: Vec::new(),
        cause: assignment.cause,
        id: None,
        body: InboundContent {
            sources: assignment.sources,
            ..InboundContent::text(assignment.text)
        },
    };
    journal::add_task(store, &task.origin(&terms.known_on), &inbound)
}
