//! The access of a reader of a stream, which may end while the stream goes on: by a sign-in that is revoked, or by a
//! person who is removed or gets another role.

use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;
use tokio::time::Instant;

use super::access::WebPerson;
use super::state::HttpGateway;
use crate::channels::web::logins;
use crate::people::Role;
use crate::types::message::SenderId;

/// Drafts and events are handed out for so long before the access is looked at again. For messages, it is looked at
/// each time.
const CHECKED_FOR: Duration = Duration::from_secs(1);

/// The access of one reader.
pub(super) struct StreamAccess {
    person: SenderId,
    sign_in: Option<String>,
    role: Role,
    /// None: it must be looked at.
    checked: Option<Instant>,
    ended_logins: watch::Receiver<()>,
}

impl StreamAccess {
    /// The access of a person who was just admitted.
    pub(super) fn of(gateway: &HttpGateway, person: &WebPerson) -> Self {
        let WebPerson { id, role, sign_in, .. } = person;
        Self {
            person: id.clone(),
            sign_in: sign_in.clone(),
            role: *role,
            // A sign-in may have ended between its check and the subscription.
            checked: None,
            ended_logins: gateway.web.ended_logins(),
        }
    }

    /// The role of the reader when it was last looked at.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Has the access looked at before anything else is handed out.
    pub(super) fn expire(&mut self) {
        self.checked = None;
    }

    /// Waits until a sign-in has ended.
    pub(super) async fn login_ended(&mut self) {
        match self.ended_logins.changed().await {
            Ok(()) => self.expire(),
            // The daemon stops, which ends the stream.
            Err(_) => std::future::pending().await,
        }
    }

    /// Looks at the access, if that is due. None if it has ended, or if the store fails: the client comes back.
    pub(super) async fn check(&mut self, gateway: &HttpGateway) -> Option<()> {
        if self.checked.is_some_and(|at| at.elapsed() < CHECKED_FOR) {
            return Some(());
        }
        let (people, page) = (gateway.services().bus.people.clone(), gateway.web.name().clone());
        let (person, sign_in) = (self.person.clone(), self.sign_in.clone());
        let look = move |store: &Connection| {
            let is_signed_in = match &sign_in {
                Some(hash) => logins::is_valid(store, hash)?,
                None => true,
            };
            let role = people.role_of(store, &page, &person)?;
            Ok(role.filter(|_| is_signed_in))
        };
        self.role = gateway.services().bus.store.read(look).await.ok()??;
        self.checked = Some(Instant::now());
        Some(())
    }
}
