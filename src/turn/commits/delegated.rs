//! Commits of subagents: a task is handed over with the outcome of its call, and its end is one
//! transaction with all that follows from it, without another word of a model.

use rusqlite::Connection;

use crate::bus::outbox;
use crate::conversation::transcript;
use crate::replies;
use crate::store::{Store, Sync};
use crate::tasks::subagents::{self, AT_ONCE_MAX, State, Subagent, SubagentId};
use crate::tools::{self, Task};
use crate::turn::commits::{CommitError, End, errands, guarded};
use crate::turn::prompt;
use crate::types::message::{Address, MessageId, SenderId};
use crate::types::session::{CallId, Ending, Outcome, TurnId};
use crate::types::untrusted;

/// Hands a task to a subagent that works beside its conversation; gives the call's outcome.
pub(super) fn spawn(
    store: &Connection,
    (turn, call): (TurnId, CallId),
    task: &Task,
) -> rusqlite::Result<Outcome> {
    Ok(match subagents::begin(store, (turn, call), task)? {
        Some(id) => Outcome::Done(prompt::spawned(id)),
        None => Outcome::Failed(prompt::too_many_subagents(AT_ONCE_MAX)),
    })
}

/// Hands a task to a subagent, for which the call waits and the turn is parked. Gives the call's outcome
/// by now, and the draft that no answer takes the place of.
pub(crate) async fn awaits(
    store: &Store,
    turn: TurnId,
    call: CallId,
    task: Task,
) -> Result<(Outcome, Option<MessageId>), CommitError> {
    guarded(store, "awaits a subagent", Sync::Later, turn, move |store| {
        if subagents::begin(store, (turn, call), &task)?.is_none() {
            let outcome = Outcome::Failed(prompt::too_many_subagents(AT_ONCE_MAX));
            transcript::call_ended(store, call, &outcome)?;
            return Ok((outcome, None));
        }
        transcript::call_waits(store, call)?;
        transcript::park(store, turn)?;
        let draft = transcript::draft(store, turn)?;
        transcript::set_draft(store, turn, None)?;
        Ok((Outcome::Waiting, draft))
    })
    .await
}

/// A subagent's turn has ended in this way.
pub(super) fn turn_ended(store: &Connection, id: SubagentId, end: &End) -> rusqlite::Result<()> {
    let state = match end.ending {
        Ending::Answered | Ending::Silent => State::Done,
        Ending::Stopped => State::Stopped,
        Ending::Failed => State::Failed,
    };
    let result = end.words.as_deref().unwrap_or(replies::NO_RESULT);
    ended(store, id, state, Came { result, tainted: end.tainted })
}

/// What came of a task.
pub(super) struct Came<'a> {
    pub(super) result: &'a str,
    /// It has read what strangers wrote.
    pub(super) tainted: bool,
}

impl<'a> Came<'a> {
    /// The program's own words.
    pub(super) fn ours(result: &'a str) -> Self {
        Self { result, tainted: false }
    }
}

/// A subagent has ended with this result: the call that waits for it has its outcome, or else the
/// conversation that asked, and its people, are told.
pub(super) fn ended(
    store: &Connection,
    id: SubagentId,
    state: State,
    Came { result, tainted }: Came<'_>,
) -> rusqlite::Result<()> {
    let Some(subagent) = subagents::end(store, id, state, result)? else { return Ok(()) };
    let told = tools::cut(result, "The rest is lost to you.");
    let went_well = state == State::Done;
    if subagent.is_awaited {
        let told = if tainted { untrusted::wrap(&told) } else { told };
        let outcome = if went_well { Outcome::Done(told) } else { Outcome::Failed(told) };
        transcript::call_ended(store, subagent.call, &outcome)?;
        return transcript::unpark(store, subagent.turn);
    }
    note(store, &subagent, (went_well, tainted), told)?;
    let words = replies::subagent_ended(id, &subagent.task, went_well, result);
    outbox::put(store, &subagent.asked_at, subagent.reply_to.as_ref(), &words)?;
    Ok(())
}

/// The conversation that asked has one turn more, so that the model knows of the end when it is next
/// spoken to.
fn note(
    store: &Connection,
    subagent: &Subagent,
    (went_well, tainted): (bool, bool),
    told: String,
) -> rusqlite::Result<()> {
    let Some(parent) = subagent.parent else { return Ok(()) };
    let heard = prompt::subagent_ended(subagent.id, &subagent.task, (went_well, tainted));
    errands::add_turn(store, (parent, subagent.turn), heard, told)
}

/// Ends those that work for an address, all or one person's, without a word; gives their own addresses.
pub(super) fn stop(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Address>> {
    stop_all(store, subagents::running_for(store, at, whose)?)
}

/// The same with those for which calls of one turn wait.
pub(super) fn stop_awaited(
    store: &Connection,
    at: &Address,
    turn: TurnId,
) -> rusqlite::Result<Vec<Address>> {
    let mut running = subagents::running_for(store, at, None)?;
    running.retain(|subagent| subagent.is_awaited && subagent.turn == turn);
    stop_all(store, running)
}

fn stop_all(store: &Connection, subagents: Vec<Subagent>) -> rusqlite::Result<Vec<Address>> {
    let mut stopped = Vec::new();
    for subagent in subagents {
        errands::withdraw(store, &subagent.at)?;
        subagents::end(store, subagent.id, State::Stopped, "")?;
        stopped.push(subagent.at);
    }
    Ok(stopped)
}
