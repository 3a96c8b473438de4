//! Carries out a due job: a text is sent, a model gets an assignment, or a command is run. Each is recorded before it
//! begins, and its outcome is recorded together with its consequences.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::{journal, outbox};
use crate::conversation::task_sessions::{self, SessionTerms};
use crate::replies;
use crate::tasks::assignment::{self, Assignment};
use crate::tasks::outcome::TaskOutcome;
use crate::tasks::schedule::command::{CommandResult, has_nothing_to_do};
use crate::tasks::schedule::note::{NO_MODEL, RunMessage, note, note_output};
use crate::tasks::schedule::payload::{JobConversation, Payload, WebhookBody};
use crate::tasks::schedule::reader;
use crate::tasks::schedule::run::Run;
use crate::tasks::schedule::settling::settle;
use crate::tasks::table;
use crate::types::message::{Body, Cause, Inbound, InboundContent, Printed};
use crate::types::session::Settings;

/// Begins the work of a run. A run that only sends a text ends at once. A command is started by
/// `running_commands` after the commit.
pub(super) fn begin(
    store: &Connection,
    run: &Run,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<()> {
    match &run.job.definition.payload {
        Payload::Message(text) => {
            let definition = &run.job.definition;
            outbox::put(
                store,
                &definition.to,
                None,
                &message_for_people(run, text, now.with_timezone(&zone)),
            )?;
            let (sender, tainted, at) =
                (&definition.sender, definition.tainted, now.with_timezone(&zone));
            note(store, run, &RunMessage { sender, provider: NO_MODEL, words: text, tainted, at })?;
            settle(store, run, TaskOutcome::Done, None, now)
        }
        Payload::Command(_) | Payload::Prompt { check: Some(_), .. } => Ok(()),
        Payload::Prompt { text, session, check: None, webhook, .. } => {
            let webhook_call = webhook.as_ref().map(|WebhookBody { hook, body }| Printed {
                text: body.clone(),
                untrusted: true,
                webhook: Some(hook.clone()),
            });
            start_turn(store, run, text, *session, webhook_call)
        }
    }
}

/// Starts the turn of a run, with the output of its check, or the body of a webhook's call.
fn start_turn(
    store: &Connection,
    run: &Run,
    text: &str,
    session: JobConversation,
    printed: Option<Printed>,
) -> rusqlite::Result<()> {
    let (id, definition) = (run.job.id, &run.job.definition);
    let cause = Cause::Job {
        job: id.0,
        due: run.due,
        late: run.late,
        tainted: definition.tainted,
        sender: definition.sender.clone(),
        printed,
    };
    // The key has the run's id: after a wrong clock, a due time can occur a second time.
    let key = journal::task_key(id.task(), Some(run.id.0));
    // The conversation of somebody else is not the job's.
    let session = match reader::is_for_somebody_else(store, definition)? {
        true => JobConversation::Own,
        false => session,
    };
    let (row, session) = match session {
        JobConversation::Own => {
            let (known_on, chat_kind) = (definition.known_on.clone(), definition.chat_kind);
            let terms = SessionTerms { known_on, chat_kind, settings: Settings::default() };
            let to = definition.to.clone();
            let session = task_sessions::open(store, id.task(), &terms, &to)?;
            let assignment = Assignment { text, sources: Vec::new(), cause, key, to };
            (assignment::start(store, id.task(), &terms, assignment)?, Some(session))
        }
        JobConversation::Here => {
            let inbound = Inbound {
                key,
                at: Utc::now(),
                from: definition.to.clone(),
                chat_kind: definition.chat_kind,
                within: Vec::new(),
                cause,
                id: None,
                body: InboundContent::text(text),
            };
            (journal::add(store, &inbound, false, None)?, None)
        }
    };
    table::set_row(store, run.id, row, session)
}

/// Records the result of a run's command, which is the outcome of the run or part of a model's input. Does nothing if the
/// run has ended meanwhile.
pub fn end_command(
    store: &Connection,
    run: &Run,
    result: CommandResult,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<()> {
    if !table::is_running(store, run.id)? {
        return Ok(());
    }
    let printed = match result {
        CommandResult::Failed(reason) => {
            return settle(store, run, TaskOutcome::Failed, Some(&reason), now);
        }
        CommandResult::Printed(printed) => printed,
    };
    match &run.job.definition.payload {
        Payload::Prompt { text, session, .. } if !has_nothing_to_do(&printed.text) => {
            start_turn(store, run, text, *session, Some(printed))
        }
        Payload::Command(_) if !printed.text.trim().is_empty() => {
            let tainted = printed.untrusted || run.job.definition.tainted;
            let at = now.with_timezone(&zone);
            let body = Body::Printed(message_for_people(run, &printed.text, at));
            outbox::put_body(store, &run.job.definition.to, &body)?;
            note_output(store, run, &printed.text, tainted, at)?;
            settle(store, run, TaskOutcome::Done, Some(&printed.text), now)
        }
        Payload::Command(_) | Payload::Prompt { .. } | Payload::Message(_) => {
            settle(store, run, TaskOutcome::Silent, None, now)
        }
    }
}

/// Returns the message to people. A late one of a job that runs once mentions its due time.
pub fn message_for_people(run: &Run, words: &str, now: DateTime<Tz>) -> String {
    match run.late && !run.job.definition.timing.recurs() {
        true => replies::late_job(&replies::time_relative_to(now, run.due), words),
        false => words.to_owned(),
    }
}
