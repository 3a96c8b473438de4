//! Proposals of the model in the private conversations of a person, on all platforms, and decisions about them
//! from the page. A decision is a message of the person at the address of the proposal, as if its button was
//! pressed there.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rusqlite::Connection;
use serde::Deserialize;

use super::access::WebPerson;
use super::guard::{Fields, PathParts};
use super::questions::{AskedPerson, answer_of};
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::bus::feed::{self, Post};
use crate::bus::journal;
use crate::bus::outbox::{self, AskedQuestion, Pressed};
use crate::conversation::{presence, proposals};
use crate::people::persons::PersonAccount;
use crate::types::message::{Address, ChannelName, ChatKind, DeliveryId, Inbound, Press};

/// Maximum number of listed proposals.
const PROPOSALS_MAX: usize = 50;

/// A proposal about which a person can decide.
pub(super) struct OpenProposal {
    pub(super) id: i64,
    pub(super) at: Address,
    pub(super) post: Post,
    account: PersonAccount,
}

/// Returns the account that has a private conversation at an address. None for a group, and for one that is closed.
fn account_at(
    store: &Connection,
    page: &ChannelName,
    at: &Address,
) -> rusqlite::Result<Option<PersonAccount>> {
    let sender = match at.channel == *page {
        true => at.chat.as_str().split_once('/').map(|(person, _)| person.into()),
        false => presence::private_speaker(store, at)?.map(|speaker| speaker.id),
    };
    Ok(sender.map(|sender| PersonAccount { channel: at.channel.clone(), sender }))
}

impl AskedPerson {
    /// Returns the proposals in the person's private conversations about which nobody has decided.
    pub(super) fn proposals(&self, store: &Connection) -> rusqlite::Result<Vec<OpenProposal>> {
        let mut found = Vec::new();
        for (id, delivery) in proposals::open_deliveries(store)? {
            if found.len() == PROPOSALS_MAX {
                break;
            }
            found.extend(self.proposal(store, id, delivery)?);
        }
        Ok(found)
    }

    /// Returns an open proposal, if it was made to this person.
    fn proposal(
        &self,
        store: &Connection,
        id: i64,
        delivery: DeliveryId,
    ) -> rusqlite::Result<Option<OpenProposal>> {
        let asked = outbox::question(store, delivery)?;
        let Some(AskedQuestion { to: at, pressed: Pressed::NotYet, .. }) = asked else {
            return Ok(None);
        };
        let page = &self.account.channel;
        let Some(account) = account_at(store, page, &at)? else { return Ok(None) };
        let Some(post) = feed::post(store, delivery)? else { return Ok(None) };
        let is_theirs = self.people.owns_past(store, &self.account, &account, post.at)?;
        let has_access =
            is_theirs && self.people.role_of(store, &at.channel, &account.sender)?.is_some();
        Ok(has_access.then_some(OpenProposal { id, at, post, account }))
    }

    /// Returns the message with which the person presses a button of a proposal. None if they have no such
    /// proposal.
    fn press_message(
        &self,
        store: &Connection,
        id: i64,
        choice: usize,
    ) -> rusqlite::Result<Option<Inbound>> {
        let Some(delivery) = proposals::open_delivery(store, id)? else { return Ok(None) };
        let found = self.proposal(store, id, delivery)?;
        let Some(OpenProposal { at, account, .. }) = found else { return Ok(None) };
        let press = Some(Press { delivery, choice });
        answer_of(store, &account, at, ChatKind::Private, press).map(Some)
    }
}

/// A decision about a proposal.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposalDecision {
    /// Chosen by the client: a repeated request has no second effect.
    id: String,
    /// The index of the button.
    choice: usize,
}

/// `POST /proposals/ID`
pub(super) async fn decide(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    PathParts(proposal): PathParts<i64>,
    Fields(ProposalDecision { id, choice }): Fields<ProposalDecision>,
) -> Result<Response, HttpRefusal> {
    let (asked, key) = (gateway.asked(&person), gateway.message_key(&person, &id));
    let known = key.clone();
    let find = move |store: &Connection| {
        if journal::has(store, &known)? {
            return Ok(None);
        }
        asked.press_message(store, proposal, choice).map(Some)
    };
    let store = &gateway.services().bus.store;
    let Some(found) = store.read(find).await? else { return Ok(StatusCode::OK.into_response()) };
    let gone = || HttpRefusal::new(StatusCode::GONE, "this proposal is gone");
    let inbound = Inbound { key, ..found.ok_or_else(gone)? };
    Ok(gateway.submit(&person, &id, inbound).await?.status().into_response())
}
