//! The commits of a turn. Each combines several tables in one transaction, where a crash must leave
//! either everything or nothing. Each first checks that the turn still runs.

mod start;
mod calls;
mod closing;
mod delegated;
mod compaction;
mod guarded;
mod jobs;
mod parting;
mod pause;
mod steps;
mod stopping;
mod waiting;

use guarded::commit_if_running;
use rusqlite::Connection;

pub(crate) use calls::{CallEnd, CallStart, end_call, start_call, take_back_start};
pub(crate) use closing::{
    close_failing_ask, close_failing_rows, close_unreadable_rows, end_unreadable_turn, give_up_task,
};
pub(crate) use compaction::{
    CompactionCommit, charge_turn, commit_compaction, commit_failed_compaction,
    commit_turn_compaction, store_frozen_memory, store_shortening,
};
pub(crate) use delegated::suspend_for_subagent;
pub use jobs::handle_order;
pub(crate) use parting::{
    end_run_without_access, end_task_without_access, end_without_access, end_work_of,
    part_from_past,
};
pub(crate) use pause::{PausedConversation, clean_conversation};
pub(crate) use start::{TurnBeginning, UsedFacts, resume_turn, start_turn};
pub(crate) use steps::{ModelStep, commit_step};
pub(crate) use stopping::{StopKind, interrupt_turn, stop_conversation};
pub(crate) use waiting::{Suspension, WaitNotice, suspend_for_model};

use crate::bus::journal::{self, InboundOutcome, RowId, WaitingMessage};
use crate::bus::outbox;
use crate::conversation::asks::{self, AskId};
use crate::conversation::ledger::{self, Charge};
use crate::conversation::transcript;
use crate::people::listing;
use crate::provider::ToolCall;
use crate::replies;
use crate::store::{Store, StoreError, Sync};
use crate::turn::background::{self, TaskEnd};
use crate::turn::end::TurnEnd;
use crate::turn::error::CommitError;
use crate::turn::refused;
use crate::types::message::{Address, Body, MessageId, Sender};
use crate::types::origin::Origin;
use crate::types::session::{Call, SessionId, Step, TurnId, TurnOutcome};

/// Stores the id of the draft that the answer will replace. None if it replaces none.
pub(crate) async fn store_draft(
    store: &Store,
    turn: TurnId,
    draft: Option<MessageId>,
) -> Result<(), CommitError> {
    commit_if_running(store, "draft", Sync::Later, turn, move |store| {
        transcript::set_draft(store, turn, draft.as_ref())
    })
    .await
}

/// Asks a person about calls of a step, and suspends the turn. The chat `notify` gets a notice if another person is
/// asked. Returns the draft, which no answer replaces for now.
pub(crate) async fn suspend_to_ask(
    store: &Store,
    turn: TurnId,
    asked: Vec<asks::NewAsk>,
    notify: Option<Address>,
    bodies: impl FnOnce(&[AskId]) -> Vec<Body> + Send + 'static,
) -> Result<Option<MessageId>, CommitError> {
    commit_if_running(store, "suspended", Sync::Now, turn, move |store| {
        asked.iter().try_for_each(|ask| transcript::mark_call_waiting(store, ask.call))?;
        asks::put(store, &asked, bodies)?;
        if let Some(at) = notify {
            outbox::put(store, &at, None, replies::ASKED_ELSEWHERE)?;
        }
        transcript::suspend(store, turn)?;
        let draft = transcript::draft(store, turn)?;
        transcript::set_draft(store, turn, None)?;
        Ok(draft)
    })
    .await
}

/// Removes the draft of a turn from the store, so that the answer does not replace it. Returns the draft.
pub(crate) async fn forget_draft(
    store: &Store,
    turn: TurnId,
) -> Result<Option<MessageId>, CommitError> {
    commit_if_running(store, "no draft", Sync::Later, turn, move |store| {
        let draft = transcript::draft(store, turn)?;
        if draft.is_some() {
            transcript::set_draft(store, turn, None)?;
        }
        Ok(draft)
    })
    .await
}

/// Ends a turn in one transaction: the last step, if there is one, the end of the turn, its rows as done, and
/// the answer in the outbox. Returns the draft if the answer is silence.
pub(crate) async fn end_turn(
    store: &Store,
    turn: TurnId,
    last: Option<ModelStep>,
    end: TurnEnd,
) -> Result<Option<MessageId>, CommitError> {
    // A message is sent only after a synced commit, which also syncs this one. Without a message, nothing
    // else would sync it.
    let sync = match (&end.words, &end.origin) {
        (Some(_), Origin::Chat(_)) => Sync::Later,
        _ => Sync::Now,
    };
    commit_if_running(store, "answer", sync, turn, move |store| {
        if let Some(step) = &last {
            step.write(store, turn)?;
        }
        let refused = refused::take_report(store, turn, end.is_quiet)?;
        let draft = send_end(store, turn, end)?;
        // The answer comes first, and then the calls that it may speak of.
        refused.map_or(Ok(()), |report| report.send(store))?;
        Ok(draft)
    })
    .await
}

/// Stores the end of a turn, with the answer in the outbox. Returns the draft if the answer is silence.
fn send_end(store: &Connection, turn: TurnId, end: TurnEnd) -> rusqlite::Result<Option<MessageId>> {
    transcript::end_turn(store, turn, end.ending)?;
    let question = journal::question(store, turn)?;
    journal::settle_turn(store, turn, end.outcome)?;
    let Origin::Chat(to) = &end.origin else {
        background::end(store, &end.origin, &TaskEnd::of_turn(turn, &end))?;
        return Ok(None);
    };
    let message = jobs::end_conversation_run(store, turn, &end)?;
    let draft = transcript::draft(store, turn)?.filter(|_| end.over_draft);
    let Some(message) = &message else { return Ok(draft) };
    let id = outbox::put_replacement(store, to, end.reply_to.as_ref(), draft.as_ref(), message)?;
    outbox::note_question(store, id, question.as_ref())?;
    for file in end.files {
        outbox::put_body(store, to, &Body::File(file))?;
    }
    Ok(None)
}

/// A silent turn of the program, with the calls that save notes.
pub(crate) struct NewNotes {
    pub(crate) session: SessionId,
    pub(crate) sender: Sender,
    pub(crate) charge: Charge,
    pub(crate) step: Step,
    pub(crate) calls: Vec<ToolCall>,
}

/// Begins the turn that saves notes. Returns its planned calls.
pub(crate) async fn begin_notes(
    store: &Store,
    NewNotes { session, sender, charge, step, calls }: NewNotes,
) -> Result<(TurnId, Vec<Call>), CommitError> {
    let begin = move |store: &Connection| {
        if !transcript::is_open(store, session)? {
            return Ok(None);
        }
        let turn = transcript::begin_turn(store, session, &sender, None, &charge.provider)?;
        transcript::set_silent(store, turn)?;
        transcript::put_step(store, turn, 0, &step)?;
        ledger::add_charge(store, turn, &charge)?;
        Ok(Some((turn, transcript::plan_calls(store, turn, 0, calls)?)))
    };
    store.write("notes", Sync::Later, begin).await?.ok_or(CommitError::Ended)
}

/// Stores a silent turn without steps, because the model had no notes. It marks when notes were last requested.
pub(crate) async fn store_empty_notes(
    store: &Store,
    session: SessionId,
    sender: Sender,
    charge: Charge,
) -> Result<TurnId, CommitError> {
    let note = move |store: &Connection| {
        if !transcript::is_open(store, session)? {
            return Ok(None);
        }
        let turn = transcript::begin_turn(store, session, &sender, None, &charge.provider)?;
        transcript::set_silent(store, turn)?;
        transcript::end_turn(store, turn, TurnOutcome::Silent)?;
        ledger::add_charge(store, turn, &charge)?;
        Ok(Some(turn))
    };
    store.write("no notes", Sync::Later, note).await?.ok_or(CommitError::Ended)
}

/// Closes messages that get no turn, with one message in the outbox.
pub(crate) async fn close_messages(
    store: &Store,
    rows: Vec<WaitingMessage>,
    outcome: InboundOutcome,
    message: String,
) -> Result<(), StoreError> {
    let settle = move |store: &Connection| {
        for row in &rows {
            journal::settle(store, row.id, outcome)?;
        }
        if let Some(WaitingMessage { inbound, .. }) = rows.last() {
            outbox::put(store, &inbound.from, inbound.id.as_ref(), &message)?;
        }
        Ok(())
    };
    store.write("closed", Sync::Now, settle).await
}

/// Closes messages of a person who has no access any more. Explains it, except to somebody who is blocked.
pub(crate) async fn close_without_access(
    store: &Store,
    rows: Vec<WaitingMessage>,
) -> Result<(), StoreError> {
    let settle = move |store: &Connection| {
        let mut were_waiting = false;
        for row in &rows {
            were_waiting |= journal::settle(store, row.id, InboundOutcome::Refused)?;
        }
        let Some(last) = rows.last().filter(|_| were_waiting) else { return Ok(()) };
        let inbound = &last.inbound;
        if !listing::is_blocked(store, &inbound.from.channel, &last.sender().id)? {
            outbox::put(store, &inbound.from, inbound.id.as_ref(), replies::ACCESS_HAS_ENDED)?;
        }
        Ok(())
    };
    store.write("no access", Sync::Now, settle).await
}

/// Closes messages that failed before they had a turn, with a message about the failure.
pub(crate) async fn close_failed_messages(
    store: &Store,
    rows: Vec<RowId>,
    origin: Origin,
) -> Result<(), StoreError> {
    let settle = move |store: &Connection| {
        let mut were_waiting = false;
        for row in rows {
            were_waiting |= journal::settle(store, row, InboundOutcome::Refused)?;
        }
        match &origin {
            _ if !were_waiting => Ok(()),
            Origin::Task { .. } => background::fail(store, &origin),
            Origin::Chat(to) => outbox::put(store, to, None, replies::SOMETHING_BROKE).map(drop),
        }
    };
    store.write("broke", Sync::Now, settle).await
}

/// Closes a message with which no turn can begin, with an explanation.
pub(crate) async fn decline_message(
    store: &Store,
    row: &WaitingMessage,
    explanation: String,
) -> Result<(), StoreError> {
    let (row, inbound) = (row.id, row.inbound.clone());
    let decline = move |store: &Connection| {
        if journal::settle(store, row, InboundOutcome::Refused)? {
            outbox::put(store, &inbound.from, inbound.id.as_ref(), &explanation)?;
        }
        Ok(())
    };
    store.write("declined", Sync::Now, decline).await
}

/// Closes a command with a reply.
pub(crate) async fn reply(
    store: &Store,
    control: &WaitingMessage,
    reply: String,
) -> Result<(), StoreError> {
    apply_command(store, control, move |_| Ok(reply)).await
}

/// Closes a command that was not carried out with the reason.
pub(crate) async fn refuse_command(
    store: &Store,
    control: &WaitingMessage,
    reason: String,
) -> Result<(), StoreError> {
    let control = control.clone();
    let refuse = move |store: &Connection| {
        settle_command(store, &control, InboundOutcome::Refused, || Ok(reason)).map(drop)
    };
    store.write("command", Sync::Now, refuse).await
}

/// Closes a command with questions or files as the reply.
pub(crate) async fn reply_with_bodies(
    store: &Store,
    control: &WaitingMessage,
    bodies: Vec<Body>,
) -> Result<(), StoreError> {
    let (row, at) = (control.id, control.inbound.from.clone());
    let handle = move |store: &Connection| {
        if journal::settle(store, row, InboundOutcome::Handled)? {
            bodies.iter().try_for_each(|body| outbox::put_body(store, &at, body).map(drop))?;
        }
        Ok(())
    };
    store.write("command", Sync::Now, handle).await
}

/// Closes a command that changes something. `change` returns the reply.
pub(crate) async fn apply_command(
    store: &Store,
    control: &WaitingMessage,
    change: impl FnOnce(&Connection) -> rusqlite::Result<String> + Send + 'static,
) -> Result<(), StoreError> {
    let control = control.clone();
    let handle = move |store: &Connection| {
        settle_command(store, &control, InboundOutcome::Handled, || change(store)).map(drop)
    };
    store.write("command", Sync::Now, handle).await
}

/// Closes a command in a transaction, and queues its reply. Returns false, and makes no reply, if it was closed before.
pub(crate) fn settle_command(
    store: &Connection,
    control: &WaitingMessage,
    outcome: InboundOutcome,
    reply: impl FnOnce() -> rusqlite::Result<String>,
) -> rusqlite::Result<bool> {
    let WaitingMessage { id, inbound, .. } = control;
    if !journal::settle(store, *id, outcome)? {
        return Ok(false);
    }
    outbox::put_urgent(store, &inbound.from, inbound.id.as_ref(), &reply()?)?;
    Ok(true)
}
