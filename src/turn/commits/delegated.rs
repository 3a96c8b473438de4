//! The commits of calls that start subagents, and the end of subagents together with the turn that waits for them.

use rusqlite::Connection;

use crate::conversation::transcript;
use crate::store::{Store, Sync};
use crate::tasks::schedule;
use crate::tasks::subagents::{self, AT_ONCE_MAX, DelegatingCall};
use crate::tools::SubagentTask;
use crate::turn::background;
use crate::turn::commits::guarded::commit_if_running;
use crate::turn::error::CommitError;
use crate::turn::prompt;
use crate::types::message::MessageId;
use crate::types::origin::Origin;
use crate::types::session::{CallId, CallOutcome, TurnId};

/// Starts a subagent that works in the background. Returns the outcome of the call.
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

/// Starts a subagent for which the call waits, and suspends the turn. Returns the present outcome of the call,
/// and the draft, which no answer replaces.
pub(crate) async fn suspend_for_subagent(
    store: &Store,
    turn: TurnId,
    call: CallId,
    task: SubagentTask,
) -> Result<(CallOutcome, Option<MessageId>), CommitError> {
    commit_if_running(store, "awaits a subagent", Sync::Later, turn, move |store| {
        let delegating_call = delegating(store, turn, call)?;
        if subagents::begin(store, delegating_call, &task)?.is_none() {
            let outcome = CallOutcome::Failed(prompt::too_many_subagents(AT_ONCE_MAX));
            transcript::end_call(store, call, &outcome, &[])?;
            return Ok((outcome, None));
        }
        transcript::mark_call_waiting(store, call)?;
        transcript::suspend(store, turn)?;
        let draft = transcript::draft(store, turn)?;
        transcript::set_draft(store, turn, None)?;
        Ok((CallOutcome::Waiting, draft))
    })
    .await
}

fn delegating(store: &Connection, turn: TurnId, call: CallId) -> rusqlite::Result<DelegatingCall> {
    let is_attended = schedule::find_turn_run(store, turn)?.is_none();
    Ok(DelegatingCall { turn, call, is_attended })
}

/// Silently ends the subagents for which calls of a turn wait. Returns their origins.
pub(super) fn stop_awaited(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<Origin>> {
    let awaited = subagents::awaited_by(store, turn)?;
    let awaited: Vec<_> = awaited.into_iter().map(|subagent| subagent.origin).collect();
    background::stop(store, &awaited)?;
    Ok(awaited)
}
