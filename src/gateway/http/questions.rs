//! Questions of the model to a person, on any platform: lists the open ones, and takes answers from the page.
//! An answer is a message of the person at the address of the question, and is handled like one that is written
//! there.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use rusqlite::Connection;
use serde::Deserialize;

use super::access::WebPerson;
use super::guard::{Fields, PathParts};
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::bus::feed::{self, Post};
use crate::bus::journal::{self, RowId, RowRange};
use crate::bus::outbox;
use crate::control::MESSAGE_BYTES_MAX;
use crate::conversation::asks::{self, Ask, AskId};
use crate::people::persons::{self, PersonAccount};
use crate::people::{People, Role};
use crate::types::commands::is_control;
use crate::types::message::{
    Address, Cause, ChatKind, Inbound, InboundContent, Press, Sender, SenderId,
};

/// The person whose questions and proposals are listed and answered.
pub(super) struct AskedPerson {
    pub(super) people: People,
    pub(super) account: PersonAccount,
    pub(super) role: Role,
}

impl AskedPerson {
    /// Returns the questions that wait for the person, wherever they were asked, each with its message.
    pub(super) fn questions(&self, store: &Connection) -> rusqlite::Result<Vec<(Ask, Post)>> {
        let mut found = Vec::new();
        for ask in asks::questions(store)? {
            if let Some(who) = self.asked_account(store, &ask)?
                && !is_answered(store, &ask, &who)?
            {
                found.extend(feed::post(store, ask.delivery)?.map(|post| (ask, post)));
            }
        }
        Ok(found)
    }

    /// Returns the account with which the person answers a question at its address. None if somebody else is
    /// asked.
    fn asked_account(&self, store: &Connection, ask: &Ask) -> rusqlite::Result<Option<SenderId>> {
        let Ask { at, who, .. } = ask;
        let Some(who) = who else {
            // Nobody in particular was asked, so the owner is.
            return if self.role == Role::Owner { self.owner_on(store, ask) } else { Ok(None) };
        };
        let asked = PersonAccount { channel: at.channel.clone(), sender: who.clone() };
        let is_theirs = self.people.are_same(store, &asked, &self.account)?;
        Ok(is_theirs.then(|| who.clone()))
    }

    /// Returns an account of the owner on the channel of a question.
    fn owner_on(&self, store: &Connection, ask: &Ask) -> rusqlite::Result<Option<SenderId>> {
        let channel = &ask.at.channel;
        for known in persons::accounts(store)?.into_iter().filter(|it| it.channel == *channel) {
            if self.people.role_of(store, channel, &known.sender)? == Some(Role::Owner) {
                return Ok(Some(known.sender));
            }
        }
        Ok(None)
    }

    /// Returns a message with which the person answers a question. None if they have no such question.
    fn answer_message(
        &self,
        store: &Connection,
        id: AskId,
        choice: Option<usize>,
    ) -> rusqlite::Result<Option<QuestionAnswered>> {
        let Some(ask) = asks::question(store, id)? else { return Ok(None) };
        let Some(who) = self.asked_account(store, &ask)? else { return Ok(None) };
        if is_answered(store, &ask, &who)? {
            return Ok(Some(QuestionAnswered::Before));
        }
        let account = PersonAccount { channel: ask.at.channel.clone(), sender: who };
        let press = choice.map(|choice| Press { delivery: ask.delivery, choice });
        let chat_kind = asks::chat_kind_of(store, &ask)?;
        let answer = answer_of(store, &account, ask.at, chat_kind, press)?;
        Ok(Some(QuestionAnswered::By(Box::new(answer))))
    }
}

/// Returns a message of an account at an address, without its key and its text.
pub(super) fn answer_of(
    store: &Connection,
    account: &PersonAccount,
    from: Address,
    chat_kind: ChatKind,
    press: Option<Press>,
) -> rusqlite::Result<Inbound> {
    let name = persons::name_of_account(store, account)?;
    let name = name.unwrap_or_else(|| account.sender.to_string());
    let shown = press.and_then(|press| outbox::platform_id(store, press.delivery).transpose());
    Ok(Inbound {
        key: "".into(),
        at: Utc::now(),
        chat_kind,
        from,
        within: Vec::new(),
        cause: Cause::Person(Sender::person(account.sender.clone(), name)),
        // A press names the message that shows the outcome.
        id: shown.transpose()?,
        body: InboundContent { press, ..InboundContent::default() },
    })
}

enum QuestionAnswered {
    Before,
    By(Box<Inbound>),
}

/// Returns true if the asked person has written there since, which the loop takes for the answer.
fn is_answered(store: &Connection, ask: &Ask, who: &SenderId) -> rusqlite::Result<bool> {
    let since = RowRange { after: ask.after, until: RowId(i64::MAX) };
    Ok(!journal::ready_messages(store, &ask.at, since, Some(who))?.is_empty())
}

impl HttpGateway {
    pub(super) fn asked(&self, person: &WebPerson) -> AskedPerson {
        AskedPerson {
            people: self.services().bus.people.clone(),
            account: self.account(person),
            role: person.role,
        }
    }
}

/// An answer: a button, or text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuestionAnswer {
    /// Chosen by the client: a repeated request has no second effect.
    id: String,
    text: Option<String>,
    /// The index of the button.
    choice: Option<usize>,
}

/// `POST /questions/ID`
pub(super) async fn answer(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    PathParts(question): PathParts<i64>,
    Fields(QuestionAnswer { id, text, choice }): Fields<QuestionAnswer>,
) -> Result<Response, HttpRefusal> {
    let text = text.unwrap_or_default();
    if text.trim().is_empty() == choice.is_none() {
        return Err(HttpRefusal::bad("an answer has either `text` or `choice`"));
    }
    if text.len() > MESSAGE_BYTES_MAX {
        let explanation = format!("the text is longer than {MESSAGE_BYTES_MAX} bytes");
        return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, explanation));
    }
    if is_control(&text) {
        return Err(HttpRefusal::bad("an answer is no command; send it in a conversation"));
    }
    let store = &gateway.services().bus.store;
    let (asked, key) = (gateway.asked(&person), gateway.message_key(&person, &id));
    let known = key.clone();
    let find = move |store: &Connection| {
        if journal::has(store, &known)? {
            return Ok(None);
        }
        asked.answer_message(store, AskId(question), choice).map(Some)
    };
    let Some(found) = store.read(find).await? else { return Ok(StatusCode::OK.into_response()) };
    let inbound = match found {
        None => return Err(HttpRefusal::new(StatusCode::GONE, "this question is gone")),
        Some(QuestionAnswered::Before) => {
            return Err(HttpRefusal::new(StatusCode::CONFLICT, "this was answered before"));
        }
        Some(QuestionAnswered::By(inbound)) => inbound,
    };
    let body = InboundContent { text, ..inbound.body };
    let inbound = Inbound { key, body, ..*inbound };
    Ok(gateway.submit(&person, &id, inbound).await?.status().into_response())
}
