//! Commits of the calls that start subagents, and of turns that end with the ones that they wait for.

use rusqlite::Connection;

use crate::conversation::transcript;
use crate::store::{Store, Sync};
use crate::tasks::schedule;
use crate::tasks::subagents::{self, AT_ONCE_MAX, DelegatingCall};
use crate::tools::SubagentTask;
use crate::turn::background;
use crate::turn::commits::guarded::guarded;
use crate::turn::error::CommitError;
use crate::turn::prompt;
use crate::types::message::MessageId;
use crate::types::origin::Origin;
use crate::types::session::{CallId, CallOutcome, TurnId};

/// Starts a subagent that works beside its conversation; returns the call's outcome.
pub(super) fn spawn(
    store: &Connection,
    turn: TurnId,
    call: CallId,
    task: &SubagentTask,
) -> rusqlite::Result<CallOutcome> {
    Ok(match subagents::begin(store, delegating(store, turn, call)?, task)? {
        Some(id) => CallOutcome::Done(prompt::spawned(id)),
        None => CallOutcome::Failed(prompt::too_many_subagents(AT_ONCE_MAX)),
    })
}

/// Starts a subagent, for which the call waits and the turn is suspended. Returns the call's outcome by now,
/// and the draft that no answer takes the place of.
pub(crate) async fn awaits(
    store: &Store,
    turn: TurnId,
    call: CallId,
    task: SubagentTask,
) -> Result<(CallOutcome, Option<MessageId>), CommitError> {
    guarded(store, "awaits a subagent", Sync::Later, turn, move |store| {
        let by = delegating(store, turn, call)?;
        if subagents::begin(store, by, &task)?.is_none() {
            let outcome = CallOutcome::Failed(prompt::too_many_subagents(AT_ONCE_MAX));
            transcript::call_ended(store, call, &outcome, &[])?;
            return Ok((outcome, None));
        }
        transcript::call_waits(store, call)?;
        transcript::suspend(store, turn)?;
        let draft = transcript::draft(store, turn)?;
        transcript::set_draft(store, turn, None)?;
        Ok((CallOutcome::Waiting, draft))
    })
    .await
}

fn delegating(store: &Connection, turn: TurnId, call: CallId) -> rusqlite::Result<DelegatingCall> {
    let is_attended = schedule::of_turn(store, turn)?.is_none();
    Ok(DelegatingCall { turn, call, is_attended })
}

/// Ends the subagents for which calls of a turn wait, without a word; returns them.
pub(super) fn stop_awaited(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<Origin>> {
    let awaited = subagents::awaited_by(store, turn)?;
    let awaited: Vec<_> = awaited.into_iter().map(|subagent| subagent.origin).collect();
    background::stop(store, &awaited)?;
    Ok(awaited)
}
