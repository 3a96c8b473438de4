//! The access of a stream's reader. It may end while the stream is open: a sign-in is revoked, or a person is
//! removed or gets another role.

use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;
use tokio::time::Instant;

use super::access::WebPerson;
use super::state::HttpGateway;
use crate::channels::web::logins;
use crate::people::Role;
use crate::types::message::SenderId;

/// Time for which drafts and events are sent before the access is checked again. For messages, it is checked
/// each time.
const CHECKED_FOR: Duration = Duration::from_secs(1);

/// The access of one reader.
pub(super) struct StreamAccess {
    person: SenderId,
    sign_in: Option<String>,
    role: Role,
    /// The time of the last check. None if a check is due.
    checked: Option<Instant>,
    ended_logins: watch::Receiver<()>,
}

impl StreamAccess {
    /// Returns the access of a person who was just admitted.
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

    /// Returns the role of the reader at the last check.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Makes a check due before anything else is sent.
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

    /// Checks the access, if that is due. None if it has ended, or if the store fails. The client then
    /// reconnects.
    pub(super) async fn check(&mut self, gateway: &HttpGateway) -> Option<()> {
        if self.checked.is_some_and(|at| at.elapsed() < CHECKED_FOR) {
            return Some(());
        }
        let (people, page) = (gateway.services().bus.people.clone(), gateway.web.name().clone());
        let (person, sign_in) = (self.person.clone(), self.sign_in.clone());
        let read_role = move |store: &Connection| {
            let is_signed_in = match &sign_in {
                Some(hash) => logins::is_valid(store, &people, &page, hash)?,
                None => true,
            };
            let role = people.role_of(store, &page, &person)?;
            Ok(role.filter(|_| is_signed_in))
        };
        self.role = gateway.services().bus.store.read(read_role).await.ok()??;
        self.checked = Some(Instant::now());
        Some(())
    }
}
