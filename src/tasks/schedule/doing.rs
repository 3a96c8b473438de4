//! Carries out a job that is due: a text is sent, a model is given a task, a command is run. Each is recorded before it
//! begins, and its outcome together with its consequences.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::{journal, outbox};
use crate::conversation::task_sessions::{self, SessionTerms};
use crate::replies;
use crate::tasks::assignment::{self, Assignment};
use crate::tasks::ended::TaskOutcome;
use crate::tasks::schedule::command::{CommandResult, lets_sleep};
use crate::tasks::schedule::note::{NO_MODEL, RunText, note, note_printed};
use crate::tasks::schedule::payload::{JobConversation, Payload, WebhookBody};
use crate::tasks::schedule::run::Run;
use crate::tasks::schedule::settling::settle;
use crate::tasks::table;
use crate::types::message::{Body, Cause, Inbound, InboundContent, Printed};
use crate::types::session::Settings;

/// Begins what a run is for; what only sends a text has ended with that. A command is begun by who finds
/// it, once this is committed.
pub(super) fn begin(
    store: &Connection,
    run: &Run,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<()> {
    match &run.job.brief.payload {
        Payload::Message(text) => {
            let brief = &run.job.brief;
            outbox::put(
                store,
                &brief.to,
                None,
                &message_for_people(run, text, now.with_timezone(&zone)),
            )?;
            let (sender, tainted) = (&brief.sender, brief.tainted);
            note(store, run, &RunText { sender, provider: NO_MODEL, words: text, tainted })?;
            settle(store, run, TaskOutcome::Done, None, now)
        }
        Payload::Command(_) | Payload::Prompt { check: Some(_), .. } => Ok(()),
        Payload::Prompt { text, session, check: None, webhook, .. } => {
            let called = webhook.as_ref().map(|WebhookBody { hook, body }| Printed {
                text: body.clone(),
                untrusted: true,
                webhook: Some(hook.clone()),
            });
            start_turn(store, run, text, *session, called)
        }
    }
}

/// Starts the turn of a run, with what was printed before, or came with the call of a webhook.
fn start_turn(
    store: &Connection,
    run: &Run,
    text: &str,
    session: JobConversation,
    printed: Option<Printed>,
) -> rusqlite::Result<()> {
    let (id, brief) = (run.job.id, &run.job.brief);
    let cause = Cause::Job {
        job: id.0,
        due: run.due,
        late: run.late,
        tainted: brief.tainted,
        sender: brief.sender.clone(),
        printed,
    };
    // A due time can come round a second time, where a clock was wrong; a run cannot.
    let key = journal::task_key(id.task(), Some(run.id.0));
    let (row, session) = match session {
        JobConversation::Own => {
            let (known_on, chat_kind) = (brief.known_on.clone(), brief.chat_kind);
            let terms = SessionTerms { known_on, chat_kind, settings: Settings::default() };
            let to = brief.to.clone();
            let session = task_sessions::open(store, id.task(), &terms, &to)?;
            let assignment = Assignment { text, sources: Vec::new(), cause, key, to };
            (assignment::start(store, id.task(), &terms, assignment)?, Some(session))
        }
        JobConversation::Here => {
            let inbound = Inbound {
                key,
                at: Utc::now(),
                from: brief.to.clone(),
                chat_kind: brief.chat_kind,
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

/// Records the result of a run's command: it is the outcome, or the input of a model with its task. Nothing if the run
/// was ended meanwhile.
pub fn command_ends(
    store: &Connection,
    run: &Run,
    came: CommandResult,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<()> {
    if !table::is_running(store, run.id)? {
        return Ok(());
    }
    let printed = match came {
        CommandResult::Failed(reason) => {
            return settle(store, run, TaskOutcome::Failed, Some(&reason), now);
        }
        CommandResult::Printed(printed) => printed,
    };
    match &run.job.brief.payload {
        Payload::Prompt { text, session, .. } if !lets_sleep(&printed.text) => {
            start_turn(store, run, text, *session, Some(printed))
        }
        Payload::Command(_) if !printed.text.trim().is_empty() => {
            let tainted = printed.untrusted || run.job.brief.tainted;
            let body =
                Body::Printed(message_for_people(run, &printed.text, now.with_timezone(&zone)));
            outbox::put_body(store, &run.job.brief.to, &body)?;
            note_printed(store, run, &printed.text, tainted)?;
            settle(store, run, TaskOutcome::Done, Some(&printed.text), now)
        }
        Payload::Command(_) | Payload::Prompt { .. } | Payload::Message(_) => {
            settle(store, run, TaskOutcome::Silent, None, now)
        }
    }
}

/// Returns the message to people. One that was promised once and comes late says so.
pub fn message_for_people(run: &Run, words: &str, now: DateTime<Tz>) -> String {
    match run.late && !run.job.brief.timing.recurs() {
        true => replies::late_job(&replies::time_relative_to(now, run.due), words),
        false => words.to_owned(),
    }
}
