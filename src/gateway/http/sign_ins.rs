//! A person's own sign-ins: lists the browsers that are signed in as them, and signs them out.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use rusqlite::Connection;
use serde::Deserialize;
use serde_json::json;

use super::access::WebPerson;
use super::guard::{Fields, PathParts};
use super::lists::ActionAnswer;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::channels::web::logins::{self, Login};
use crate::people::People;
use crate::people::persons::PersonAccount;
use crate::replies;
use crate::store::Sync;

/// Returns the sign-ins of the person with an account on the page, the last used first.
fn own_logins(
    store: &Connection,
    people: &People,
    account: &PersonAccount,
) -> rusqlite::Result<Vec<Login>> {
    let mut own = Vec::new();
    for login in logins::list(store, people, &account.channel)? {
        let other = PersonAccount { sender: login.person.clone(), ..account.clone() };
        if people.are_same(store, &other, account)? {
            own.push(login);
        }
    }
    Ok(own)
}

/// `GET /sign-ins`
pub(super) async fn list(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
) -> Result<Response, HttpRefusal> {
    let (people, account) = (gateway.services().bus.people.clone(), gateway.account(&person));
    let read = move |store: &Connection| own_logins(store, &people, &account);
    let found = gateway.services().bus.store.read(read).await?;
    let current_id = person.sign_in.as_deref().map(logins::id_of);
    let shown = found.iter().map(|login| {
        json!({
            "id": login.id, "browser": login.agent, "since": login.since, "seen": login.seen,
            "current": Some(&login.id) == current_id.as_ref(),
        })
    });
    let shown: Vec<_> = shown.collect();
    Ok(gateway.listed(&json!({ "sign_ins": shown })))
}

/// An action on a sign-in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignInAction {
    action: SignInVerb,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SignInVerb {
    Revoke,
}

/// `POST /sign-ins/ID`, or `/sign-ins/all`
pub(super) async fn change(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    PathParts(id): PathParts<String>,
    Fields(SignInAction { action: SignInVerb::Revoke }): Fields<SignInAction>,
) -> Result<Json<ActionAnswer>, HttpRefusal> {
    gateway.check_actions(&person)?;
    let (people, account) = (gateway.services().bus.people.clone(), gateway.account(&person));
    let revoke = move |store: &Connection| {
        let mut ended = 0;
        let own = own_logins(store, &people, &account)?;
        for login in own.iter().filter(|login| [logins::ALL, &*login.id].contains(&&*id)) {
            ended += logins::revoke(store, &login.id)?;
        }
        Ok(ended)
    };
    let ended = gateway.services().bus.store.write("sign-ins", Sync::Now, revoke).await?;
    gateway.web.note_ended_login();
    match ended {
        0 => Err(HttpRefusal::not_found("there is no such sign-in of yours")),
        ended => gateway.action_response(Ok(replies::logins_ended(ended))),
    }
}
