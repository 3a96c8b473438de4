//! What the command line has the daemon do: send something, and look after jobs.

use std::sync::Arc;

use chrono::Utc;
use rusqlite::Connection;

use super::{Desk, Response};
use crate::agent;
use crate::control::send::{self, Parcel};
use crate::people::{self, Role};
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::tasks::heartbeat::Wish;
use crate::tasks::schedule::{self, Asker, Wanted, Whose};
use crate::turn::commits::obey_order;
use crate::types::message::{Address, Place, Sender};

pub(super) async fn send(desk: &Desk, parcel: Parcel) -> Result<Response, StoreError> {
    let means = &desk.means;
    let channels = desk.links.keys().cloned().collect();
    let sent = send::send(&means.bus, &means.workspace, &channels, parcel).await?;
    Ok(Response::Sent(sent))
}

pub(super) async fn cron(
    desk: &Desk,
    wanted: Wanted,
    to: Option<Address>,
) -> Result<Response, StoreError> {
    let means = &desk.means;
    let (now, zone, known_on) = (Utc::now(), means.zone, desk.terminal.name().clone());
    let channels: Vec<_> = desk.links.keys().cloned().collect();
    if let Some(to) = to.as_ref().filter(|to| !channels.contains(&to.channel)) {
        return Ok(Response::Failed(replies::no_channel(&to.channel)));
    }
    // For what goes nowhere.
    let nowhere = || Address { channel: "".into(), chat: "".into(), thread: None };
    let judge = Arc::clone(means);
    let obey = move |store: &Connection| {
        let owner = people::owner_place(store)?;
        let is_new = wanted.action == schedule::Action::Add && !wanted.when.is_empty();
        let Some(to) = to.or_else(|| owner.clone()).or_else(|| (!is_new).then(nowhere)) else {
            return Ok(Err(replies::WHERE_JOB.to_owned()));
        };
        let is_owners = owner.is_some_and(|owner| {
            (owner.channel, owner.chat) == (to.channel.clone(), to.chat.clone())
        });
        let place = if is_owners { Place::Private } else { schedule::place_of(store, &to)? };
        if wanted.has_command() {
            let place = agent::place_of_command(store, &wanted, place)?;
            if let Err(words) = agent::may_command(&judge, Role::Owner, place) {
                return Ok(Err(words));
            }
        }
        let sender = Sender::person(people::LOCAL, people::LOCAL);
        match wanted.read(Asker { to, known_on, place, sender, tainted: false }, now, zone) {
            Ok(order) => obey_order(store, &Whose::All, order, (now, zone)),
            Err(words) => Ok(Err(words)),
        }
    };
    let obeyed = means.bus.store.write("cron", Sync::Now, obey).await?;
    means.bus.jobs.up();
    means.bus.inbox.up();
    Ok(obeyed.map_or_else(Response::Failed, Response::Done))
}

pub(super) async fn heartbeat(desk: &Desk, wish: Wish) -> Result<Response, StoreError> {
    let heart = &desk.means.heart;
    let order = heart.order(wish).await?;
    let words = heart.bus.store.write("heartbeat", Sync::Now, order).await?;
    heart.ordered(wish);
    Ok(Response::Done(words))
}
