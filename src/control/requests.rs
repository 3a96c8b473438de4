//! Orders of the command line to the daemon: send a message, and manage jobs.

use std::sync::Arc;

use chrono::Utc;
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use super::listing::{self, Listing};
use super::{ACTIONS_MAX, ControlServer, Response, channel_statuses, removed_channels};
use crate::agent::{self, BudgetCommand, Pairing, PairingReply, PeopleCommand, PeopleReply};
use crate::control::send::{self, SendRequest};
use crate::conversation::actions::{ActionReader, ActionScope};
use crate::doctor::links;
use crate::people::persons::PersonAccount;
use crate::people::{self, LOCAL, Role};
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::tasks::heartbeat::HeartbeatRequest;
use crate::tasks::schedule::{self, JobRequest, JobRequester, JobScope};
use crate::turn::commits::handle_order;
use crate::types::job_verb::JobVerb;
use crate::types::message::{Address, ChatKind, Sender};

pub(super) async fn send(
    server: &ControlServer,
    request: SendRequest,
    stop: &CancellationToken,
) -> Result<Response, StoreError> {
    let services = &server.turns.services;
    let channels = server.links.keys().cloned().collect();
    let sent = send::send(&services.bus, &services.workspace, &channels, request, stop).await?;
    Ok(Response::Sent(sent))
}

pub(super) async fn cron(
    server: &ControlServer,
    wanted: JobRequest,
    to: Option<Address>,
) -> Result<Response, StoreError> {
    let services = &server.turns.services;
    let (now, zone, known_on) = (Utc::now(), services.zone, server.terminal.name().clone());
    let channels: Vec<_> = server.links.keys().cloned().collect();
    if let Some(to) = to.as_ref().filter(|to| !channels.contains(&to.channel)) {
        return Ok(Response::Failed(replies::no_channel(&to.channel)));
    }
    // A request that makes no new job needs no address.
    let nowhere = || Address { channel: "".into(), chat: "".into(), thread: None };
    let (config, turns) = (Arc::clone(&server.agent), Arc::clone(&server.turns));
    let people = services.bus.people.clone();
    let handle = move |store: &Connection| {
        let owner = people::owner_address(store)?;
        let is_new = wanted.action == JobVerb::Add && !wanted.when.is_empty();
        let Some(to) = to.or_else(|| owner.clone()).or_else(|| (!is_new).then(nowhere)) else {
            return Ok(Err(replies::WHERE_JOB.to_owned()));
        };
        let is_owners = owner.is_some_and(|owner| {
            (owner.channel, owner.chat) == (to.channel.clone(), to.chat.clone())
        });
        let local = PersonAccount { channel: known_on.clone(), sender: LOCAL.into() };
        let chat_kind = match is_owners {
            true => ChatKind::Private,
            false => schedule::chat_kind_for(store, &people, &local, &to)?,
        };
        if wanted.has_command() {
            let chat_kind = agent::chat_kind_of_command(store, &wanted, chat_kind)?;
            let shell = &config.shell;
            let allowed =
                agent::check_may_command(&turns.config, shell, &wanted, Role::Owner, chat_kind);
            if let Err(message) = allowed {
                return Ok(Err(message));
            }
        }
        let sender = Sender::person(people::LOCAL, people::LOCAL);
        match wanted.read(
            JobRequester { to, known_on, chat_kind, sender, tainted: false },
            now,
            zone,
        ) {
            Ok(order) => handle_order(store, &JobScope::All, order, now, zone),
            Err(message) => Ok(Err(message)),
        }
    };
    let handled = services.bus.store.write("cron", Sync::Now, handle).await?;
    services.bus.jobs.notify();
    services.bus.inbox.notify();
    Ok(handled.map_or_else(Response::Failed, Response::Done))
}

pub(super) async fn heartbeat(
    server: &ControlServer,
    wish: HeartbeatRequest,
) -> Result<Response, StoreError> {
    let heartbeat = &server.turns.heartbeat;
    let order = heartbeat.prepare_request(wish).await?;
    let answer = server.turns.services.bus.store.write("heartbeat", Sync::Now, order).await?;
    heartbeat.wake_after(wish);
    Ok(Response::Done(answer))
}

pub(super) async fn heartbeat_listing(server: &ControlServer) -> Result<Response, StoreError> {
    let heartbeat = &server.turns.heartbeat;
    let shown = heartbeat.shown(heartbeat.clock.now()).await?;
    Ok(Response::Listing(listing::heartbeat(shown)))
}

pub(super) async fn actions(server: &ControlServer, limit: usize) -> Result<Response, StoreError> {
    let limit = limit.clamp(1, ACTIONS_MAX);
    let services = &server.turns.services;
    let account = PersonAccount { channel: server.terminal.name().clone(), sender: LOCAL.into() };
    let reader = ActionReader { people: services.bus.people.clone(), accounts: vec![account] };
    let list = move |store: &Connection| reader.list(store, &ActionScope::ALL, None, limit);
    services.bus.store.read(list).await.map(Response::Actions)
}

/// Explains an action, a file or a fact, as JSON.
pub(super) async fn why(server: &ControlServer, what: &str) -> Result<Response, StoreError> {
    let explained = agent::why_listing(&server.turns.services, server.terminal.name(), what);
    Ok(explained.await?.map_or_else(Response::Failed, Response::Listing))
}

pub(super) async fn pair(
    server: &ControlServer,
    words: &[String],
    json: bool,
) -> Result<Response, StoreError> {
    let pairing = Pairing::parse(words.iter().map(String::as_str));
    // A list for a script is a listing of its own.
    let Some(pairing) = pairing.filter(|pairing| !json || *pairing != Pairing::List) else {
        return Ok(Response::Failed(replies::PAIR_USAGE.to_owned()));
    };
    let bus = &server.turns.services.bus;
    let people = bus.people.clone();
    let change = move |store: &Connection| agent::pair(store, &people, &pairing, Utc::now());
    let done = bus.store.write("pair", Sync::Now, change).await?;
    agent::notify_of_change(bus);
    bus.outbox.notify();
    Ok(match done {
        Err(failure) => Response::Failed(failure),
        Ok(PairingReply { change: Some(change), .. }) if json => Response::listing(&change),
        Ok(PairingReply { words, .. }) => Response::Done(words),
    })
}

pub(super) async fn listing(server: &ControlServer, what: Listing) -> Result<Response, StoreError> {
    let services = &server.turns.services;
    let zone = services.zone;
    let people = services.bus.people.clone();
    let read = move |store: &Connection| listing::read(store, &people, what, zone);
    services.bus.store.read(read).await.map(Response::Listing)
}

pub(super) async fn budget(
    server: &ControlServer,
    words: &[String],
) -> Result<Response, StoreError> {
    let Some(order) = BudgetCommand::parse(words.iter().map(String::as_str)) else {
        return Ok(Response::Failed(replies::BUDGET_USAGE.trim_start().to_owned()));
    };
    let turns = &server.turns;
    let spending = turns.spending.clone();
    let handle =
        move |store: &Connection| agent::apply_budget_command(store, &spending, order, Utc::now());
    turns.services.bus.store.write("budget", Sync::Now, handle).await.map(Response::Done)
}

pub(super) async fn budget_listing(server: &ControlServer) -> Result<Response, StoreError> {
    let spending = server.turns.spending.clone();
    let list = move |store: &Connection| agent::budgets_listing(store, &spending, Utc::now());
    server.turns.services.bus.store.read(list).await.map(Response::Listing)
}

pub(super) async fn people(
    server: &ControlServer,
    words: &[String],
) -> Result<Response, StoreError> {
    let Some(order) = PeopleCommand::parse(words.iter().map(String::as_str)) else {
        return Ok(Response::Failed(replies::PEOPLE_USAGE.to_owned()));
    };
    let services = &server.turns.services;
    let (people, now) = (services.bus.people.clone(), services.now());
    let handle = move |store: &Connection| agent::apply_people_command(store, &people, order, now);
    let done = services.bus.store.write("people", Sync::Now, handle).await?;
    agent::notify_of_change(&services.bus);
    Ok(match done {
        Ok(PeopleReply::Words(answer)) => Response::Done(answer),
        Ok(PeopleReply::Card(question)) => Response::Done(question.text),
        Err(message) => Response::Failed(message),
    })
}

/// Asks each model for a word, and reports the links and the MCP servers of this daemon.
pub(super) async fn examine(server: &ControlServer) -> Result<Response, StoreError> {
    let mut findings = links::check_models(&server.turns.models.all).await;
    for (name, channel) in channel_statuses(server).await? {
        // The terminal is a channel without a platform.
        if name == server.terminal.name().as_str() {
            continue;
        }
        let deliveries = channel.failing;
        let failing = (deliveries.count > 0).then(|| {
            (deliveries.count, deliveries.reason.unwrap_or_else(|| "no reason is known".to_owned()))
        });
        findings.push(links::link_finding(
            &name,
            &links::LinkReport {
                up: channel.up,
                about: channel.about,
                last_byte_s: channel.last_byte_s,
                trouble: channel.trouble,
                failing,
            },
        ));
    }
    for (name, count) in removed_channels(server).await? {
        findings.push(links::removed_finding(&name, count));
    }
    for mcp_server in &server.turns.tools.mcp_tools().mcp_servers {
        let (up, trouble) = (mcp_server.up, mcp_server.trouble.as_deref());
        findings.push(links::server_finding(&mcp_server.name, up, mcp_server.tools, trouble));
    }
    Ok(Response::Findings(findings))
}
