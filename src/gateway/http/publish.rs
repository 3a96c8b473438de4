//! Puts messages of persons into the journal, each once.

use axum::http::StatusCode;
use chrono::Utc;

use super::access::WebPerson;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::bus::Published;
use crate::types::message::{Address, Cause, ChatKind, DedupKey, Inbound, InboundContent};

/// Maximum number of messages of a person in a minute, from all browsers and programs together.
pub(super) const MESSAGES_PER_MINUTE: u32 = 60;

/// A message that is in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    Now,
    /// A request with the same id was accepted before.
    Before,
}

impl Accepted {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Now => StatusCode::ACCEPTED,
            Self::Before => StatusCode::OK,
        }
    }
}

impl HttpGateway {
    /// Returns the key of a message with an id that its client has chosen.
    pub(super) fn message_key(&self, person: &WebPerson, id: &str) -> DedupKey {
        format!("{}:{}:{id}", self.web.name(), person.id).into()
    }

    /// Stores a message of a person, once for each id that its client has chosen.
    pub(super) async fn publish(
        &self,
        person: &WebPerson,
        from: Address,
        id: &str,
        body: InboundContent,
    ) -> Result<Accepted, HttpRefusal> {
        // A press names the message that shows the outcome.
        let shown = body.press.map(|press| press.delivery.0.to_string().into());
        let inbound = Inbound {
            key: self.message_key(person, id),
            at: Utc::now(),
            from,
            chat_kind: ChatKind::Private,
            within: Vec::new(),
            cause: Cause::Person(person.sender()),
            id: shown,
            body,
        };
        self.submit(person, id, inbound).await
    }

    /// Stores a message of a person, which may be for another channel, once for each id that its client has chosen.
    pub(super) async fn submit(
        &self,
        person: &WebPerson,
        id: &str,
        inbound: Inbound,
    ) -> Result<Accepted, HttpRefusal> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !(8..=64).contains(&id.len()) || !id.chars().all(is_allowed) {
            return Err(HttpRefusal::bad("`id` has 8 to 64 of a-z, A-Z, 0-9, - and _"));
        }
        if !self.limits.allows(&format!("messages {}", person.id), MESSAGES_PER_MINUTE) {
            return Err(HttpRefusal::too_many());
        }
        let refused = |status, explanation: &str| Err(HttpRefusal::new(status, explanation));
        match self.web.post(inbound).await {
            None => {
                refused(StatusCode::SERVICE_UNAVAILABLE, "the message was not stored; try again")
            }
            Some(Published::Accepted) => Ok(Accepted::Now),
            Some(Published::Repeated) => Ok(Accepted::Before),
            Some(Published::Full) => {
                refused(StatusCode::TOO_MANY_REQUESTS, "too many messages wait in this session")
            }
            Some(Published::TurnedAway | Published::NotEntitled) => {
                refused(StatusCode::FORBIDDEN, "somebody else must decide this")
            }
            Some(Published::AlreadyDecided) => {
                refused(StatusCode::CONFLICT, "this was already decided")
            }
            Some(Published::Gone) => refused(StatusCode::GONE, "this question is gone"),
        }
    }
}
