//! `/jobs`: what is to be done later, as people see and change it.

use chrono::Utc;

use super::{Means, commits, role_of};
use crate::bus::journal::Waiting;
use crate::message::Place;
use crate::people::Role;
use crate::replies;
use crate::schedule::{self, JobId, Order, Whose};
use crate::store::StoreError;

/// Reads what follows `/jobs`; none if it was said wrongly.
pub(super) fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Order> {
    let Some(verb) = words.next() else { return Some(Order::List) };
    let id = words.next().and_then(|id| id.trim_start_matches('#').parse().ok()).map(JobId);
    match (verb.to_ascii_lowercase().as_str(), id) {
        ("list", _) => Some(Order::List),
        ("show", Some(id)) => Some(Order::Show(id)),
        ("run", Some(id)) => Some(Order::Run(id)),
        ("pause", Some(id)) => Some(Order::Pause(id)),
        ("resume", Some(id)) => Some(Order::Resume(id)),
        ("rm" | "remove", Some(id)) => Some(Order::Remove(id)),
        ("history", Some(id)) => Some(Order::History(id)),
        _ => None,
    }
}

/// Carries it out: on all jobs for the owner in private, else on those of who speaks.
pub(super) async fn obey(
    means: &Means,
    control: &Waiting,
    order: Option<Order>,
) -> Result<(), StoreError> {
    let inbound = &control.inbound;
    let role = role_of(means, &inbound.from, control.sender()).await?;
    let order = match order {
        _ if role < Role::User => Err(replies::NO_JOBS_FOR_GUESTS),
        order => order.ok_or(replies::JOBS_USAGE),
    };
    let order = match order {
        Ok(order) => order,
        Err(words) => {
            return commits::obeyed(&means.bus.store, control, words.to_owned()).await;
        }
    };
    let whose = match (role, inbound.place) {
        (Role::Owner, Place::Private) => Whose::All,
        _ => Whose::Of(inbound.from.channel.clone(), control.sender().id.clone()),
    };
    let now = (Utc::now(), means.zone);
    commits::obeyed_with(&means.bus.store, control, move |store| {
        Ok(schedule::obey(store, &whose, order, now)?.unwrap_or_else(|words| words))
    })
    .await?;
    means.bus.jobs.up();
    Ok(())
}
