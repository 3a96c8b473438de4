//! What the command line has the daemon do: send something, and look after jobs.

use std::sync::Arc;

use chrono::Utc;
use rusqlite::Connection;

use super::listing::{self, Listing};
use super::{ACTIONS_MAX, ControlServer, Response};
use crate::agent::{self, Pairing};
use crate::control::send::{self, Parcel};
use crate::conversation::actions::{self, Sight};
use crate::conversation::presence;
use crate::people::{self, Role};
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::tasks::heartbeat::Wish;
use crate::tasks::schedule::{Asker, Wanted, Whose};
use crate::turn::commits::obey_order;
use crate::types::job_verb::JobVerb;
use crate::types::message::{Address, Place, Sender};

pub(super) async fn send(server: &ControlServer, parcel: Parcel) -> Result<Response, StoreError> {
    let services = &server.turns.services;
    let channels = server.links.keys().cloned().collect();
    let sent = send::send(&services.bus, &services.workspace, &channels, parcel).await?;
    Ok(Response::Sent(sent))
}

pub(super) async fn cron(
    server: &ControlServer,
    wanted: Wanted,
    to: Option<Address>,
) -> Result<Response, StoreError> {
    let services = &server.turns.services;
    let (now, zone, known_on) = (Utc::now(), services.zone, server.terminal.name().clone());
    let channels: Vec<_> = server.links.keys().cloned().collect();
    if let Some(to) = to.as_ref().filter(|to| !channels.contains(&to.channel)) {
        return Ok(Response::Failed(replies::no_channel(&to.channel)));
    }
    // For what goes nowhere.
    let nowhere = || Address { channel: "".into(), chat: "".into(), thread: None };
    let (config, turns) = (Arc::clone(&server.agent), Arc::clone(&server.turns));
    let obey = move |store: &Connection| {
        let owner = people::owner_place(store)?;
        let is_new = wanted.action == JobVerb::Add && !wanted.when.is_empty();
        let Some(to) = to.or_else(|| owner.clone()).or_else(|| (!is_new).then(nowhere)) else {
            return Ok(Err(replies::WHERE_JOB.to_owned()));
        };
        let is_owners = owner.is_some_and(|owner| {
            (owner.channel, owner.chat) == (to.channel.clone(), to.chat.clone())
        });
        let place = if is_owners { Place::Private } else { presence::place_of(store, &to)? };
        if wanted.has_command() {
            let place = agent::place_of_command(store, &wanted, place)?;
            let may = agent::may_command(&turns.config, &config.shell, Role::Owner, place);
            if let Err(words) = may {
                return Ok(Err(words));
            }
        }
        let sender = Sender::person(people::LOCAL, people::LOCAL);
        match wanted.read(Asker { to, known_on, place, sender, tainted: false }, now, zone) {
            Ok(order) => obey_order(store, &Whose::All, order, now, zone),
            Err(words) => Ok(Err(words)),
        }
    };
    let obeyed = services.bus.store.write("cron", Sync::Now, obey).await?;
    services.bus.jobs.up();
    services.bus.inbox.up();
    Ok(obeyed.map_or_else(Response::Failed, Response::Done))
}

pub(super) async fn heartbeat(server: &ControlServer, wish: Wish) -> Result<Response, StoreError> {
    let heartbeat = &server.turns.heartbeat;
    let order = heartbeat.order(wish).await?;
    let words = server.turns.services.bus.store.write("heartbeat", Sync::Now, order).await?;
    heartbeat.ordered(wish);
    Ok(Response::Done(words))
}

pub(super) async fn actions(server: &ControlServer, limit: usize) -> Result<Response, StoreError> {
    let limit = limit.clamp(1, ACTIONS_MAX);
    let list = move |store: &Connection| actions::list(store, &Sight::ALL, None, limit);
    server.turns.services.bus.store.read(list).await.map(Response::Actions)
}

pub(super) async fn pair(server: &ControlServer, words: &[String]) -> Result<Response, StoreError> {
    let Some(pairing) = Pairing::parse(words.iter().map(String::as_str)) else {
        return Ok(Response::Failed(replies::PAIR_USAGE.to_owned()));
    };
    let bus = &server.turns.services.bus;
    let people = bus.people.clone();
    let change = move |store: &Connection| agent::pair(store, &people, &pairing, Utc::now());
    let done = bus.store.write("pair", Sync::Now, change).await?;
    bus.outbox.up();
    Ok(done.map_or_else(Response::Failed, Response::Done))
}

pub(super) async fn listing(server: &ControlServer, what: Listing) -> Result<Response, StoreError> {
    let services = &server.turns.services;
    let zone = services.zone;
    let read = move |store: &Connection| listing::read(store, what, zone);
    services.bus.store.read(read).await.map(Response::Listing)
}
