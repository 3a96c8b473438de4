//! Services that most parts of the running daemon share. Not here: services with few users,
//! which are with those users.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::bus::Bus;
use crate::channels::Channels;
use crate::conversation::transcript;
use crate::people::{Role, persons};
use crate::secret::Redactor;
use crate::store::StoreError;
use crate::types::event::Events;
use crate::types::message::{Address, ChannelName, Sender};
use crate::types::origin::Origin;
use crate::types::person::PersonId;
use crate::types::session::Session;
use crate::workspace::Workspace;

/// The shared services, cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// The store, the people, the journal and the outbox.
    pub bus: Bus,
    pub channels: Channels,
    pub workspace: Workspace,
    pub events: Events,
    /// The owner's time zone, for due times of jobs and times in prompts.
    pub zone: Tz,
    /// Removes secrets from models' input and from outgoing messages.
    pub redactor: Redactor,
}

impl Services {
    /// Returns the time in the owner's zone.
    pub(crate) fn now(&self) -> DateTime<Tz> {
        Utc::now().with_timezone(&self.zone)
    }
}

/// Returns the open session of an origin, from the store.
pub(crate) async fn load(
    services: &Services,
    origin: impl Into<Origin>,
) -> Result<Option<Session>, StoreError> {
    let origin = origin.into();
    services.bus.store.read(move |store| transcript::open_session(store, &origin)).await
}

/// Returns the role of a person who wrote at an address.
pub(crate) async fn role_of(
    services: &Services,
    at: &Address,
    sender: &Sender,
) -> Result<Role, StoreError> {
    role_on(services, &at.channel, sender).await
}

/// Returns the role of a person who is known on a channel. Guest for a person whose access was revoked
/// since they wrote.
pub(crate) async fn role_on(
    services: &Services,
    channel: &ChannelName,
    sender: &Sender,
) -> Result<Role, StoreError> {
    let (people, channel, sender) =
        (services.bus.people.clone(), channel.clone(), sender.id.clone());
    let role =
        services.bus.store.read(move |store| people.role_of(store, &channel, &sender)).await?;
    Ok(role.unwrap_or(Role::Guest))
}

/// Returns the person who is known on a channel.
pub(crate) async fn person_on(
    services: &Services,
    channel: &ChannelName,
    sender: &Sender,
) -> Result<Option<PersonId>, StoreError> {
    let (channel, sender) = (channel.clone(), sender.id.clone());
    services.bus.store.read(move |store| persons::person_of(store, &channel, &sender)).await
}
