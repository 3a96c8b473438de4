//! The subagents that make approved calls: those of one report one after another, and of different reports at the same
//! time. An approved call that waits is a deferred call (`conversation::deferred`); not here: its approval.

use rusqlite::Connection;

use super::{NewSubagent, SubagentDetails, start};
use crate::bus::outbox;
use crate::conversation::actions;
use crate::conversation::deferred::{self, DeferredCall, DeferredId};
use crate::conversation::task_sessions::SessionTerms;
use crate::conversation::transcript;
use crate::replies;
use crate::tasks::outcome::TaskOutcome;
use crate::tasks::table;
use crate::types::message::{Address, SenderId};
use crate::types::session::{CallId, SessionId, Settings, TurnId};

/// Maximum number of running subagents that make one approved call. Each works for another report.
pub const APPROVED_AT_ONCE_MAX: usize = 6;

/// Beginning of the task of a subagent that makes one call.
const ALLOWED: &str = "A call that was allowed:";

/// Starts subagents for approved calls that wait: for those of one report one after another, in the order in which they
/// were shown, because they may change the same files. Returns the calls. People are told of one that cannot be read.
pub fn begin_queued(store: &Connection) -> rusqlite::Result<Vec<DeferredId>> {
    for to in deferred::drop_unreadable_queued(store)? {
        outbox::put(store, &to, None, replies::APPROVED_UNREADABLE)?;
    }
    let (queued, mut begun) = (deferred::queued(store)?, Vec::new());
    if queued.is_empty() {
        return Ok(begun);
    }
    let mut at_work = Vec::new();
    for task in table::running::<SubagentDetails>(store)? {
        if task.details.approved.is_some() {
            at_work.push(reporting_turn(store, task.details.call)?);
        }
    }
    for (id, call) in queued {
        if at_work.len() >= APPROVED_AT_ONCE_MAX {
            break;
        }
        let report = reporting_turn(store, Some(call.call))?;
        if at_work.contains(&report) {
            continue;
        }
        deferred::settle(store, id, true)?;
        begin_approved(store, call)?;
        at_work.push(report);
        begun.push(id);
    }
    Ok(begun)
}

/// Drops the approved calls of a conversation that wait: all of them, or one person's.
pub fn drop_queued_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<()> {
    for (id, call) in deferred::queued(store)? {
        if call.to == *at && whose.is_none_or(|whose| call.sender.id == *whose) {
            deferred::settle(store, id, false)?;
        }
    }
    Ok(())
}

/// Begins the calls that have waited for a subagent, which has ended. If people have stopped it, those of its report are
/// dropped. `call`: the refused call that it has made.
pub(super) fn ended(
    store: &Connection,
    call: Option<CallId>,
    outcome: TaskOutcome,
) -> rusqlite::Result<()> {
    if outcome == TaskOutcome::Stopped {
        let report = reporting_turn(store, call)?;
        for (id, waiting) in deferred::queued(store)? {
            if reporting_turn(store, Some(waiting.call))? == report {
                deferred::settle(store, id, false)?;
            }
        }
    }
    begin_queued(store).map(drop)
}

/// Returns the turn that could not make a call, whose report has all such calls. All calls of deleted turns count as those
/// of one.
fn reporting_turn(store: &Connection, call: Option<CallId>) -> rusqlite::Result<Option<TurnId>> {
    let turn = call.map_or(Ok(None), |call| transcript::turn_of_call(store, call))?;
    Ok(turn.map(|turn| turn.turn))
}

/// Starts a subagent that makes a call which somebody has approved later, and reports the result.
fn begin_approved(store: &Connection, deferred: DeferredCall) -> rusqlite::Result<()> {
    let DeferredCall { call, approved, sender, known_on, chat_kind, to, tainted, .. } = deferred;
    let terms = SessionTerms { known_on, chat_kind, settings: Settings::default() };
    // The conversation at the address gets the result.
    let parent = actions::session_at(store, &to)?.unwrap_or(SessionId(0));
    let task = format!("{ALLOWED} {}", approved.tool);
    let (call, approved) = (Some(call), Some(approved));
    let details = SubagentDetails { parent, call, task, is_unattended: false, approved };
    start(store, NewSubagent { to, terms, sender, details, tainted }).map(drop)
}
