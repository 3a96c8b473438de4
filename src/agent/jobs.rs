//! `/jobs`: lists and changes work for later.

use chrono::Utc;
use rusqlite::Connection;

use super::scope::CommandScope;
use crate::bus::journal::WaitingMessage;
use crate::people::Role;
use crate::replies;
use crate::sandbox::SandboxState;
use crate::services::role_of;
use crate::store::StoreError;
use crate::tasks::schedule::{self, JobId, JobRequest, JobRequestKind, JobRequester, JobScope};
use crate::tools::schedule::SCHEDULE;
use crate::tools::shell::EXEC;
use crate::turn::commits;
use crate::turn::personas::{PersonaListener, persona_for};
use crate::turn::services::TurnConfig;
use crate::types::commands::CommandId;
use crate::types::job_verb::{JobShortcut, JobVerb};
use crate::types::message::ChatKind;

/// Parses the arguments of `/jobs`. None if they are invalid. A new job is written as `add WHEN | WHAT`.
pub(super) fn parse(arguments: &str) -> Option<JobRequest> {
    let (verb, rest) = first_word(arguments);
    let verb = verb.to_ascii_lowercase();
    let new = |kind| {
        let (when, text) = rest.split_once('|')?;
        let (when, text, kind) = (when.trim().to_owned(), text.trim().to_owned(), Some(kind));
        Some(JobRequest { when, text, kind, ..JobRequest::new(JobVerb::Add) })
    };
    let (id, after) = first_word(rest);
    let id = id.trim_start_matches('#').parse().ok();
    let for_job = |action| Some(JobRequest { id: Some(id?), ..JobRequest::new(action) });
    if verb.is_empty() {
        return Some(JobRequest::new(JobVerb::List));
    }
    match JobShortcut::parse(&verb) {
        Some(JobShortcut::Message) => return new(JobRequestKind::Message),
        Some(JobShortcut::Command) => return new(JobRequestKind::Command),
        Some(JobShortcut::Check) => {
            return Some(JobRequest { check: Some(after.to_owned()), ..for_job(JobVerb::Edit)? });
        }
        None => {}
    }
    match JobVerb::parse(&verb)? {
        JobVerb::List => Some(JobRequest::new(JobVerb::List)),
        JobVerb::Add => new(JobRequestKind::Prompt),
        // In chat, a job is edited by asking the model.
        JobVerb::Edit => None,
        verb => for_job(verb),
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// Checks that a person may schedule a command directly, without the model. The error explains a refusal. A
/// person whose commands need an approval must ask the model, because only a turn can request it. The owner
/// needs no other permission.
pub fn check_may_command(
    config: &TurnConfig,
    shell: &SandboxState,
    wanted: &JobRequest,
    role: Role,
    chat_kind: ChatKind,
) -> Result<(), String> {
    let Some(commands) = &config.commands else {
        return Err(replies::no_commands(&shell.describe()));
    };
    let needs = wanted.needs()?;
    let permission =
        commands.permitted_audience(role, chat_kind).and_then(|_| commands.check_needs(&needs));
    permission.map_err(|why| replies::no_command(&why))?;
    let approvals = &config.asking.approvals;
    let is_asked_about = approvals.names(EXEC) || approvals.roles.contains(&role);
    match role {
        Role::Guest | Role::User | Role::Admin if is_asked_about => {
            Err(replies::COMMAND_NEEDS_APPROVAL.to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns the kind of chat for a command that is requested at `here`: that of the edited job, because
/// its results go there.
pub fn chat_kind_of_command(
    store: &Connection,
    wanted: &JobRequest,
    here: ChatKind,
) -> rusqlite::Result<ChatKind> {
    let changed = wanted.id.filter(|_| wanted.action == JobVerb::Edit).map(JobId);
    let job = changed.map(|id| schedule::get(store, id, &JobScope::All)).transpose()?.flatten();
    Ok(job.map_or(here, |job| job.definition.chat_kind))
}

/// Answers `/jobs`: the owner in private reaches all jobs, others those of the sender.
pub(super) async fn handle(
    scope: &CommandScope<'_>,
    control: &WaitingMessage,
    wanted: Option<JobRequest>,
) -> Result<(), StoreError> {
    let (turns, services, inbound) = (scope.turns, &scope.turns.services, &control.inbound);
    let role = role_of(services, &inbound.from, control.sender()).await?;
    let (now, zone) = (Utc::now(), services.zone);
    let requester = JobRequester {
        to: inbound.from.clone(),
        known_on: inbound.from.channel.clone(),
        chat_kind: inbound.chat_kind,
        sender: control.sender().clone(),
        tainted: false,
    };
    let known_on = &inbound.from.channel;
    let who = PersonaListener { known_on, sender: control.sender(), role };
    let persona = persona_for(services, &turns.config.personas, &inbound.from, who).await?.persona;
    let order = match wanted {
        _ if !CommandId::Jobs.spec().allows(role, inbound.chat_kind) => {
            Err(replies::NO_JOBS_FOR_GUESTS.to_owned())
        }
        None => Err(replies::JOBS_USAGE.to_owned()),
        Some(wanted) if wanted.action == JobVerb::Add && !persona.tools.allow(SCHEDULE) => {
            Err(replies::JOBS_NOT_OF_PERSONA.to_owned())
        }
        Some(wanted) if wanted.has_command() && !persona.tools.allow(EXEC) => {
            Err(replies::no_command(replies::COMMANDS_NOT_OF_PERSONA))
        }
        Some(wanted) if wanted.has_command() => {
            let (here, request) = (inbound.chat_kind, wanted.clone());
            let query = move |store: &Connection| chat_kind_of_command(store, &request, here);
            let chat_kind = services.bus.store.read(query).await?;
            check_may_command(&turns.config, &scope.config.shell, &wanted, role, chat_kind)
                .and_then(|()| wanted.read(requester.clone(), now, zone))
        }
        Some(wanted) => wanted.read(requester.clone(), now, zone),
    };
    let order = match order {
        Ok(order) => order,
        Err(refusal) => return commits::reply(&services.bus.store, control, refusal).await,
    };
    let people = services.bus.people.clone();
    commits::apply_command(&services.bus.store, control, move |store| {
        let job_scope = requester.scope(store, &people, role)?;
        let handled = commits::handle_order(store, &job_scope, order, now, zone)?;
        Ok(handled.unwrap_or_else(|failure| failure))
    })
    .await?;
    services.bus.jobs.notify();
    Ok(())
}
