//! What most parts of the running daemon share. What only some of them need is where they are.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::bus::Bus;
use crate::channels::Channels;
use crate::conversation::transcript;
use crate::people::Role;
use crate::secret::Redactor;
use crate::store::StoreError;
use crate::types::event::Events;
use crate::types::message::{Address, ChannelName, Sender};
use crate::types::origin::Origin;
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
    /// The owner's time zone, by which jobs are due and prompts tell the time.
    pub zone: Tz,
    /// Removes secrets from what models are shown and from what leaves in messages.
    pub redactor: Redactor,
}

impl Services {
    /// Returns the time as the owner's clock shows it.
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

/// Returns the role of a person who is known on a channel; a guest's for somebody who was shut out since
/// they wrote.
pub(crate) async fn role_on(
    services: &Services,
    channel: &ChannelName,
    sender: &Sender,
) -> Result<Role, StoreError> {
    let (people, channel, sender) =
        (services.bus.people.clone(), channel.clone(), sender.id.clone());
    let role = services.bus.store.read(move |it| people.role_of(it, &channel, &sender)).await?;
    Ok(role.unwrap_or(Role::Guest))
}
