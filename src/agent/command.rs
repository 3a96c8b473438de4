//! Commands: carried out by the loop at once, without a model, also while turns run.

use chrono::Utc;
use rusqlite::Connection;

use super::skills::skills_text;
use crate::agent::activation::{self, ActivationCommand};
use crate::agent::approvals::ApprovalVerdict;
use crate::agent::budget::{self, BudgetCommand};
use crate::agent::facts::{self, RememberCommand};
use crate::agent::forget::ForgetCommand;
#[cfg(feature = "gateway")]
use crate::agent::page_link;
use crate::agent::pairing::{Pairing, pair};
use crate::agent::people::{self, LinkCommand, PeopleCommand};
use crate::agent::scope::CommandScope;
use crate::agent::settings::{self, SettingRequest};
use crate::agent::trusting::{self, TrustCommand};
use crate::agent::why::{self, WhySubject};
use crate::agent::{heartbeat, jobs, persona, sessions, status, undo};
use crate::bus::journal::WaitingMessage;
use crate::bus::{outbox, restarted};
use crate::conversation::ledger::breakdown::describe_usage;
use crate::people as access;
use crate::replies::{self, SubagentLine};
use crate::services::{Services, role_of};
use crate::store::StoreError;
use crate::tasks::heartbeat::HeartbeatRequest as Wished;
use crate::tasks::schedule::{self, JobRequest};
use crate::tasks::subagents;
use crate::turn::commits;
use crate::types::commands::{self, CommandId, MistypedCommand};
use crate::types::message::ChatKind;

/// Default and maximum number of actions in `/actions`: a message on most platforms.
const ACTIONS_SHOWN: usize = 10;
const ACTIONS_MAX: usize = 50;

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Status,
    Stop,
    New,
    Incognito,
    Clean,
    /// None if no path was given.
    Trust(Option<TrustCommand>),
    WhoAmI,
    Persona,
    /// The focus of the summary.
    Compact(Option<String>),
    /// A part of the names to list.
    Sessions(Option<String>),
    /// A name or a number. None without either.
    Resume(Option<String>),
    /// None if there is no text.
    Remember(Option<RememberCommand>),
    /// A word that the listed facts contain.
    Memory(Option<String>),
    /// None without words.
    Forget(Option<ForgetCommand>),
    /// None if the arguments are invalid.
    Actions(Option<usize>),
    /// The number of an action. None for the last one.
    Undo(Option<String>),
    /// None if the arguments are invalid.
    Why(Option<WhySubject>),
    Plan,
    Subagents,
    /// None if the arguments are invalid.
    Jobs(Option<JobRequest>),
    /// None if the arguments are invalid.
    Heartbeat(Option<Wished>),
    Proposals,
    /// None if the arguments are invalid.
    Pair(Option<Pairing>),
    /// The model, the reasoning effort or the queue mode of a conversation.
    Set(SettingRequest),
    /// A side question. Empty if it has no text.
    Btw(String),
    Skills,
    Usage,
    Web,
    /// None if the arguments are invalid.
    Budget(Option<BudgetCommand>),
    Restart,
    /// None if the arguments are invalid.
    People(Option<PeopleCommand>),
    /// None if the arguments are invalid.
    Activation(Option<ActivationCommand>),
    Link(LinkCommand),
    Unlink,
    /// A decision about a waiting call. None if the arguments are invalid.
    Judge(Option<ApprovalVerdict>),
    /// A command that does not exist.
    Unknown(MistypedCommand),
}

/// Parses the text of a command message.
pub(super) fn parse(text: &str) -> Command {
    let Some(spec) = commands::find(text) else {
        return commands::mistyped(text).map_or(Command::Help, Command::Unknown);
    };
    let arguments = text.trim_start().split_once(char::is_whitespace).map(|(_, rest)| rest);
    let mut words = text.split_whitespace().skip(1);
    let phrase = words.clone().collect::<Vec<_>>().join(" ");
    let phrase = (!phrase.is_empty()).then_some(phrase);
    match spec.id {
        CommandId::Status => Command::Status,
        CommandId::Stop => Command::Stop,
        CommandId::New => Command::New,
        CommandId::Incognito => Command::Incognito,
        CommandId::Clean => Command::Clean,
        CommandId::Trust => Command::Trust(arguments.and_then(TrustCommand::parse)),
        CommandId::WhoAmI => Command::WhoAmI,
        CommandId::Persona => Command::Persona,
        CommandId::Actions => Command::Actions(match words.next() {
            None => Some(ACTIONS_SHOWN),
            Some(number) => number.parse().ok().map(|n: usize| n.clamp(1, ACTIONS_MAX)),
        }),
        CommandId::Undo => Command::Undo(words.next().map(str::to_owned)),
        CommandId::Why => Command::Why(WhySubject::parse(arguments.unwrap_or_default())),
        CommandId::Plan => Command::Plan,
        CommandId::Subagents => Command::Subagents,
        CommandId::Jobs => Command::Jobs(jobs::parse(arguments.unwrap_or_default())),
        CommandId::Heartbeat => Command::Heartbeat(heartbeat::parse(words)),
        CommandId::Proposals => Command::Proposals,
        CommandId::Compact => Command::Compact(phrase),
        CommandId::Remember => Command::Remember(arguments.and_then(RememberCommand::parse)),
        CommandId::Sessions => Command::Sessions(phrase),
        CommandId::Resume => Command::Resume(phrase),
        CommandId::Memory => Command::Memory(phrase),
        CommandId::Forget => Command::Forget(arguments.and_then(ForgetCommand::parse)),
        CommandId::Pair => Command::Pair(Pairing::parse(words)),
        CommandId::Model => Command::Set(SettingRequest::of_model(words)),
        CommandId::Think => Command::Set(SettingRequest::of_thinking(words)),
        CommandId::Queue => Command::Set(SettingRequest::of_queue(words)),
        CommandId::Btw => Command::Btw(arguments.unwrap_or_default().trim().to_owned()),
        CommandId::Skills => Command::Skills,
        CommandId::Usage => Command::Usage,
        CommandId::Web => Command::Web,
        CommandId::Budget => Command::Budget(BudgetCommand::parse(words)),
        CommandId::People => Command::People(PeopleCommand::parse(words)),
        CommandId::Activation => Command::Activation(ActivationCommand::parse(words)),
        CommandId::Link => Command::Link(LinkCommand::parse(words)),
        CommandId::Unlink => Command::Unlink,
        CommandId::Restart => Command::Restart,
        CommandId::Approve => Command::Judge(ApprovalVerdict::approve(words)),
        CommandId::Deny => Command::Judge(ApprovalVerdict::deny(words)),
        // `/skill` is a turn, not a control.
        CommandId::Help | CommandId::Skill => Command::Help,
    }
}

/// Answers every command, except those that the loop carries out itself.
pub(super) async fn handle(
    scope: &CommandScope<'_>,
    control: &WaitingMessage,
    command: Command,
) -> Result<(), StoreError> {
    let (turns, services) = (scope.turns, &scope.turns.services);
    let reply = match command {
        Command::Help
        | Command::Stop
        | Command::New
        | Command::Incognito
        | Command::Clean
        | Command::Btw(_)
        | Command::Compact(_)
        | Command::Forget(_)
        | Command::Judge(_) => replies::help(),
        Command::Trust(wanted) => return trusting::handle(services, control, wanted).await,
        Command::Remember(order) => return facts::remember(turns, control, order).await,
        Command::Sessions(word) => sessions::show(services, control, word).await?,
        Command::Resume(asked) => {
            return sessions::resume(services, control, asked, scope.is_unsettled).await;
        }
        Command::Memory(word) => return facts::show(turns, control, word).await,
        Command::Unknown(MistypedCommand { typed, meant }) => {
            replies::unknown_command(&typed, meant)
        }
        Command::Status => status::status(scope, control).await?,
        Command::Set(request) => return settings::handle(scope, control, request).await,
        Command::Skills => services.workspace.run_blocking(skills_text).await,
        Command::Usage => usage(services, control).await?,
        #[cfg(feature = "gateway")]
        Command::Web => page_link::reply_text(scope, control).await?,
        #[cfg(not(feature = "gateway"))]
        Command::Web => replies::WEB_NOT_BUILT.to_owned(),
        Command::Budget(order) => return budget::handle(turns, control, order).await,
        Command::Restart => return restart(scope, control).await,
        Command::WhoAmI => {
            let role = role_of(services, &control.inbound.from, control.sender()).await?;
            let from = &control.inbound.from;
            let tools = persona::tools(turns, control, role).await?;
            let tools: Vec<_> = tools.iter().map(String::as_str).collect();
            replies::who_you_are(control.sender(), role, from, &tools)
        }
        Command::Persona => persona::describe(turns, control).await?,
        Command::Actions(None) => replies::ACTIONS_USAGE.to_owned(),
        Command::Actions(Some(limit)) => undo::list(services, control, limit).await?,
        Command::Undo(number) => return undo::handle(turns, control, number.as_deref()).await,
        Command::Why(asked) => return why::handle(services, control, asked).await,
        Command::Plan => undo::plan(services, control).await?,
        Command::Subagents => subagents(services, control).await?,
        Command::Jobs(order) => return jobs::handle(scope, control, order).await,
        Command::Heartbeat(request) => return heartbeat::handle(turns, control, request).await,
        Command::Proposals => undo::proposals(services, control).await?,
        Command::People(order) => return people::handle(services, control, order).await,
        Command::Activation(order) => return activation::handle(services, control, order).await,
        Command::Link(order) => return people::link(services, control, order).await,
        Command::Unlink => return people::unlink(services, control).await,
        Command::Pair(pairing) => return handle_pair(services, control, pairing).await,
    };
    commits::reply(&services.bus.store, control, reply).await
}

async fn handle_pair(
    services: &Services,
    control: &WaitingMessage,
    pairing: Option<Pairing>,
) -> Result<(), StoreError> {
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let chat_kind = control.inbound.chat_kind;
    let reply = match pairing {
        _ if !CommandId::Pair.spec().allows(role, chat_kind) => replies::OWNER_ONLY.to_owned(),
        None => replies::PAIR_USAGE.to_owned(),
        Some(pairing) => {
            let people = services.bus.people.clone();
            commits::apply_command(&services.bus.store, control, move |store| {
                let result = pair(store, &people, &pairing, Utc::now())?;
                Ok(result.map_or_else(|failure| failure, |reply| reply.words))
            })
            .await?;
            people::notify_of_change(&services.bus);
            return Ok(());
        }
    };
    commits::reply(&services.bus.store, control, reply).await
}

async fn subagents(services: &Services, control: &WaitingMessage) -> Result<String, StoreError> {
    let at = control.inbound.from.clone();
    let found = services.bus.store.read(move |store| subagents::list(store, &at)).await?;
    let lines = found.iter().map(|it| {
        let begun = replies::time_relative_to(services.now(), it.begun);
        SubagentLine { id: it.id.0, state: it.state.as_str(), begun, task: &it.task }
    });
    Ok(replies::subagents(lines))
}

async fn usage(services: &Services, control: &WaitingMessage) -> Result<String, StoreError> {
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    if !CommandId::Usage.spec().allows(role, control.inbound.chat_kind) {
        return Ok(replies::USAGE_FOR_ADMINS.to_owned());
    }
    let zone = services.zone;
    let midnight = schedule::midnight(Utc::now(), zone);
    services.bus.store.read(move |store| describe_usage(store, midnight, zone)).await
}

/// Ends the daemon if somebody starts it again, and if it can then start with the config as it is now.
async fn restart(scope: &CommandScope<'_>, control: &WaitingMessage) -> Result<(), StoreError> {
    let services = &scope.turns.services;
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let is_allowed = CommandId::Restart.spec().allows(role, control.inbound.chat_kind);
    let Some(restart) = scope.config.restart.as_ref().filter(|_| is_allowed) else {
        let reply = if is_allowed { replies::CANNOT_RESTART } else { replies::OWNER_ONLY };
        return commits::reply(&services.bus.store, control, reply.to_owned()).await;
    };
    // A start with a wrong config ends at once, and is not repeated: nobody could answer any more.
    if let Err(words) = restart.check().await {
        tracing::error!(reason = words, "Cannot use the changed config, will not restart");
        return refuse_restart(services, control, words).await;
    }
    let asked_at = control.inbound.from.clone();
    let note = move |store: &Connection| {
        restarted::note(store, &asked_at)?;
        Ok(replies::RESTARTING.to_owned())
    };
    commits::apply_command(&services.bus.store, control, note).await?;
    tracing::info!("Restarting on the owner's command");
    restart.stop.cancel();
    Ok(())
}

/// Tells why there is no restart. The details of the config are for the owner's private chat only.
async fn refuse_restart(
    services: &Services,
    control: &WaitingMessage,
    words: String,
) -> Result<(), StoreError> {
    let is_private = control.inbound.chat_kind == ChatKind::Private;
    let refuse = move |store: &Connection| {
        if is_private {
            return Ok(words);
        }
        if let Some(owner) = access::owner_address(store)? {
            outbox::put(store, &owner, None, &words)?;
        }
        Ok(replies::RESTART_REFUSED.to_owned())
    };
    commits::apply_command(&services.bus.store, control, refuse).await
}
