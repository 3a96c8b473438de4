//! The commits that end a turn from outside: `/stop`, `/new` and the like, and a newer message that interrupts.

use rusqlite::Connection;

use crate::bus::journal::{self, InboundOutcome, RowId, RowRange, WaitingMessage};
use crate::bus::{outbox, side_questions};
use crate::conversation::transcript::{self, UnfinishedTurn};
use crate::conversation::{asks, incognito, sessions, settings};
use crate::memory::audience;
use crate::people::Role;
use crate::replies;
use crate::store::{Store, StoreError, Sync};
use crate::trust::clean::{self, KeptConversation};
use crate::trust::taint;
use crate::turn::background;
use crate::turn::commits::{delegated, jobs};
use crate::turn::refused;
use crate::types::commands::CommandId;
use crate::types::message::{ChatKind, MessageAuthor, SenderId};
use crate::types::origin::Origin;
use crate::types::session::{Session, TurnOutcome};

/// The command that ends a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopKind {
    Stop,
    /// Also closes the session.
    New,
    /// Also closes the session, and opens an incognito one.
    Incognito,
    /// Also closes the session, and continues in one without its untrusted content.
    Clean,
}

/// The ended work whose tasks must be cancelled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoppedTasks {
    /// True if a turn was ended that ran there, or was to be resumed.
    pub(crate) turn: bool,
    /// True if waiting rows were withdrawn, including commands that are being carried out.
    pub(crate) waiting: bool,
    /// True if side questions were stopped: all of them, or one person's.
    pub(crate) side_questions: bool,
    /// The stopped background tasks of the chat: all of them, or one person's.
    pub(crate) tasks: Vec<Origin>,
}

/// Ends the turn in the chat of a command, with its background tasks, withdraws the rows that waited before the
/// command, except messages in a conversation that is cleaned, and queues the confirmation. `context_window` returns the
/// window of the model that answers in a session, in tokens.
pub(crate) async fn stop_conversation(
    store: &Store,
    control: &WaitingMessage,
    role: Role,
    kind: StopKind,
    context_window: impl Fn(&Session) -> u64 + Send + 'static,
) -> Result<StoppedTasks, StoreError> {
    let control = control.clone();
    let stop = move |store: &Connection| {
        let (at, speaker) = (&control.inbound.from, control.sender());
        if !journal::settle(store, control.id, InboundOutcome::Handled)? {
            return Ok(StoppedTasks::default());
        }
        let commands_all = role >= Role::Admin || control.inbound.chat_kind == ChatKind::Private;
        let running =
            transcript::unfinished(store)?.into_iter().find(|turn| turn.origin == control.origin);
        let (own, others): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|turn| commands_all || turn.sender.id == speaker.id);
        let reply_with =
            |reply: &str| outbox::put_urgent(store, at, control.inbound.id.as_ref(), reply);
        if kind == StopKind::Clean
            && let Some(reply) = clean_refusal(store, &control, role)?
        {
            reply_with(&reply)?;
            return Ok(StoppedTasks::default());
        }
        if kind == StopKind::Incognito && control.inbound.chat_kind == ChatKind::Group {
            reply_with(replies::INCOGNITO_IN_PRIVATE)?;
            return Ok(StoppedTasks::default());
        }
        if kind == StopKind::New && !commands_all {
            reply_with(replies::NOT_YOURS_TO_CLOSE)?;
            return Ok(StoppedTasks::default());
        }
        for turn in &own {
            transcript::end_turn(store, turn.turn, TurnOutcome::Stopped)?;
            journal::settle_turn(store, turn.turn, InboundOutcome::Stopped)?;
        }
        let whose = (!commands_all).then_some(&speaker.id);
        let withdrawn = match kind {
            // Waiting messages are answered in the conversation that goes on.
            StopKind::Clean => journal::withdraw_commands(store, &control.origin, control.id)?,
            _ => journal::withdraw(store, &control.origin, control.id, whose)?,
        };
        let side_questions = side_questions::stop(store, at, whose)?;
        let tasks = background::stop_for(store, at, whose)?;
        if kind != StopKind::Stop {
            let reply = match kind {
                StopKind::Clean => {
                    let kept = read_kept(store, &control, role, &context_window)?;
                    begin_clean(store, &control, kept)?
                }
                StopKind::New | StopKind::Stop => match incognito::is_on(store, at)? {
                    true => {
                        incognito::end(store, at, Some(control.id))?;
                        sessions::close(store, at)?;
                        replies::INCOGNITO_OVER.to_owned()
                    }
                    false => {
                        sessions::close(store, at)?;
                        replies::NEW_SESSION.to_owned()
                    }
                },
                StopKind::Incognito => {
                    incognito::end(store, at, Some(control.id))?;
                    sessions::close(store, at)?;
                    let next = sessions::open_or_begin(store, at, control.inbound.chat_kind)?;
                    incognito::begin(store, next, control.id)?;
                    replies::INCOGNITO.to_owned()
                }
            };
            reply_with(&replies::and_dropped(reply, withdrawn.by_people))?;
            return Ok(StoppedTasks { turn: true, waiting: true, side_questions: true, tasks });
        }
        let has_stopped_more = side_questions > 0 || !tasks.is_empty() || withdrawn.of_tasks > 0;
        match (own.is_empty(), withdrawn.by_people) {
            (true, 0) if has_stopped_more => reply_with(replies::STOPPED)?,
            (true, 0) if !others.is_empty() => reply_with(replies::NOT_YOURS_TO_STOP)?,
            (true, 0) => reply_with(replies::NOTHING_TO_STOP)?,
            (_, by_people) => reply_with(&replies::stopped_and_withdrawn(by_people))?,
        };
        let (turn, waiting, side_questions) =
            (!own.is_empty(), !withdrawn.is_empty(), side_questions > 0);
        Ok(StoppedTasks { turn, waiting, side_questions, tasks })
    };
    store.write("stop", Sync::Now, stop).await
}

/// Returns the reason why a conversation cannot be cleaned, for the person. None if it can.
fn clean_refusal(
    store: &Connection,
    control: &WaitingMessage,
    role: Role,
) -> rusqlite::Result<Option<String>> {
    if !CommandId::Clean.spec().allows(role, control.inbound.chat_kind) {
        return Ok(Some(replies::CLEAN_IN_PRIVATE.to_owned()));
    }
    let session = transcript::open_session(store, &control.origin)?;
    let taint = session.and_then(|session| taint::session_taint(&session, role));
    Ok(taint.is_none().then(|| replies::NOTHING_TO_CLEAN.to_owned()))
}

/// Returns the trusted part of the open conversation. None if it has no untrusted content.
fn read_kept(
    store: &Connection,
    control: &WaitingMessage,
    role: Role,
    context_window: &dyn Fn(&Session) -> u64,
) -> rusqlite::Result<Option<KeptConversation>> {
    let session = transcript::open_session(store, &control.origin)?;
    let audience = audience(role, control.inbound.chat_kind);
    Ok(session.and_then(|it| clean::keep(&it, role, audience, context_window(&it))))
}

/// Closes the session, and opens the next one with its trusted part. Returns the reply.
fn begin_clean(
    store: &Connection,
    control: &WaitingMessage,
    kept: Option<KeptConversation>,
) -> rusqlite::Result<String> {
    let Some(kept) = kept else {
        return Ok(replies::NOTHING_TO_CLEAN.to_owned());
    };
    let was_incognito = incognito::is_on(store, &control.inbound.from)?;
    let settings_before = settings::settings_at(store, &control.inbound.from)?;
    let last = journal::last_before_waiting(store, &control.inbound.from, control.id)?;
    incognito::end(store, &control.inbound.from, Some(last))?;
    sessions::close(store, &control.inbound.from)?;
    let next = sessions::open_or_begin(store, &control.inbound.from, control.inbound.chat_kind)?;
    settings::set(store, next, &settings_before)?;
    if was_incognito {
        incognito::begin(store, next, last)?;
    }
    if !kept.record.is_empty() {
        sessions::set_summary(store, next, &kept.record, &kept.sources)?;
    }
    Ok(replies::cleaned(kept.left_out, kept.cut))
}

/// Silently ends the turn of an origin that runs or waits for a person, with the subagents for which it
/// waits, because its person has sent a newer message. Returns those subagents. None if there is no such
/// turn, or the message is the answer for which it waits.
pub(crate) async fn interrupt_turn(
    store: &Store,
    origin: Origin,
    sender: SenderId,
) -> Result<Option<Vec<Origin>>, StoreError> {
    let interrupt = move |store: &Connection| {
        let mut running = transcript::unfinished(store)?.into_iter();
        let theirs = running.find(|turn| turn.origin == origin && turn.sender.id == sender);
        let Some(theirs) = theirs else { return Ok(None) };
        if theirs.suspended && !is_passed_over(store, &theirs)? {
            return Ok(None);
        }
        let subagents = delegated::stop_awaited(store, theirs.turn)?;
        // Who speaks into the run of a job has not asked for silence about it.
        refused::report(store, theirs.turn, false)?;
        transcript::end_turn(store, theirs.turn, TurnOutcome::Stopped)?;
        journal::settle_turn(store, theirs.turn, InboundOutcome::Stopped)?;
        jobs::interrupt_run(store, theirs.turn)?;
        Ok(Some(subagents))
    };
    store.write("interrupt", Sync::Now, interrupt).await
}

/// Returns true if the person of a suspended turn has sent a message that is not the awaited answer. For a question,
/// only messages before the question count.
fn is_passed_over(store: &Connection, suspended: &UnfinishedTurn) -> rusqlite::Result<bool> {
    let asked = asks::questions(store)?.into_iter().find(|ask| ask.turn == suspended.turn);
    let until = asked.map_or(RowId(i64::MAX), |ask| ask.after);
    let rows = RowRange { after: RowId(0), until };
    let author = MessageAuthor::Person(suspended.sender.id.clone());
    journal::has_ready_message(store, &suspended.origin, rows, &author)
}
