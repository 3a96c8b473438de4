//! Finds the person who makes a request, by the cookie of a sign-in or by a token.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::channels::web::logins::{self, SignedIn, sha256_hex};
use crate::people::{LOCAL, Role, page_accounts, persons};
use crate::secret::Secret;
use crate::store::Sync;
use crate::types::commands::CommandId;
use crate::types::message::{ChannelName, ChatKind, Sender, SenderId};

/// The cookie of a sign-in.
pub(super) const COOKIE: &str = "peacrab";

/// The header by which the page proves that a request is its own.
const CSRF_HEADER: &str = "x-csrf-token";

/// Maximum number of wrong tokens in a minute, of all programs together. Right ones are not counted.
const WRONG_PER_MINUTE: u32 = 30;

/// A person who makes a request.
pub(super) struct WebPerson {
    pub(super) id: SenderId,
    /// The name as others see it.
    pub(super) name: String,
    pub(super) role: Role,
    /// The CSRF token, which the page repeats in its requests. None with a bearer token.
    pub(super) csrf: Option<String>,
    /// The hash of the cookie. None with a bearer token.
    pub(super) sign_in: Option<String>,
}

impl WebPerson {
    /// Returns an error unless the person may give this command in a private chat.
    pub(super) fn check_allowed(&self, command: CommandId) -> Result<(), HttpRefusal> {
        match command.spec().allows(self.role, ChatKind::Private) {
            true => Ok(()),
            false => Err(HttpRefusal::new(StatusCode::FORBIDDEN, "this is not for your role")),
        }
    }

    /// Returns the person as the author of a message or a change.
    pub(super) fn sender(&self) -> Sender {
        Sender::person(self.id.clone(), self.name.clone())
    }
}

impl FromRequestParts<Arc<HttpGateway>> for WebPerson {
    type Rejection = HttpRefusal;

    async fn from_request_parts(
        parts: &mut Parts,
        gateway: &Arc<HttpGateway>,
    ) -> Result<Self, HttpRefusal> {
        let (id, csrf, sign_in) = match bearer(&parts.headers) {
            Some(token) => (person_by_token(gateway, token)?, None, None),
            None => {
                let cookie = cookie(&parts.headers).ok_or_else(not_signed_in)?;
                let csrf = csrf_of(cookie);
                if !matches!(parts.method, Method::GET | Method::HEAD) {
                    check_csrf(&parts.headers, &csrf)?;
                }
                (person_by_cookie(gateway, cookie).await?, Some(csrf), Some(sha256_hex(cookie)))
            }
        };
        let (people, channel) = (gateway.services().bus.people.clone(), gateway.web.name().clone());
        let who = id.clone();
        let find = move |store: &Connection| {
            let role = people.role_of(store, &channel, &who)?;
            Ok((role, name_on_page(store, &channel, &who)?))
        };
        let (role, name) = gateway.services().bus.store.read(find).await?;
        let role = role.ok_or_else(|| {
            HttpRefusal::new(StatusCode::FORBIDDEN, "this person no longer has access")
        })?;
        Ok(Self { id, name, role, csrf, sign_in })
    }
}

/// Returns the name by which people see a person: that in the config, or else that of their other accounts.
fn name_on_page(store: &Connection, page: &ChannelName, id: &SenderId) -> rusqlite::Result<String> {
    let person = match page_accounts::is_page_account(id) {
        true => persons::person_of(store, page, id)?,
        false => None,
    };
    let name = person.map(|person| persons::name_of_person(store, person)).transpose()?.flatten();
    Ok(name.unwrap_or_else(|| shown_name(id).to_owned()))
}

fn not_signed_in() -> HttpRefusal {
    HttpRefusal::new(StatusCode::UNAUTHORIZED, "sign in, or send a token")
}

fn person_by_token(gateway: &HttpGateway, token: &str) -> Result<SenderId, HttpRefusal> {
    let is_owners = gateway.config.token.as_ref().is_some_and(|own| is_same(own, token));
    let mut found = is_owners.then(|| LOCAL.into());
    // All tokens are compared, so that the time does not reveal a similar one.
    for api_token in gateway.config.tokens.values() {
        if is_same(&api_token.token, token) {
            found = Some(api_token.person.clone());
        }
    }
    match found {
        Some(person) => Ok(person),
        None if !gateway.limits.allows("wrong token", WRONG_PER_MINUTE) => {
            Err(HttpRefusal::too_many())
        }
        None => Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, "this token is unknown")),
    }
}

async fn person_by_cookie(gateway: &HttpGateway, cookie: &str) -> Result<SenderId, HttpRefusal> {
    let store = &gateway.services().bus.store;
    let value = cookie.to_owned();
    let (people, page) = (gateway.services().bus.people.clone(), gateway.web.name().clone());
    let find = move |store: &Connection| logins::person_of(store, &people, &page, &value);
    let found = store.read(find).await?;
    let Some(SignedIn { person, is_stale }) = found else { return Err(not_signed_in()) };
    if is_stale {
        let value = cookie.to_owned();
        let note_seen = move |store: &Connection| logins::mark_used(store, &value);
        store.write("sign-in", Sync::Later, note_seen).await?;
    }
    Ok(person)
}

/// Returns an error unless the page itself has sent the request.
fn check_csrf(headers: &HeaderMap, csrf: &str) -> Result<(), HttpRefusal> {
    let given = headers.get(CSRF_HEADER).map(|value| value.as_bytes()).unwrap_or_default();
    match bool::from(given.ct_eq(csrf.as_bytes())) {
        true => Ok(()),
        false => Err(HttpRefusal::new(StatusCode::FORBIDDEN, "reload the page, and try again")),
    }
}

/// Returns a CSRF token, which only a reader of the cookie, or of the page's own requests, knows.
fn csrf_of(cookie: &str) -> String {
    sha256_hex(&format!("csrf {cookie}"))
}

/// Returns the bearer token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the sign-in cookie of a request.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

/// Compares a secret in constant time, for any lengths.
pub(super) fn is_same(secret: &Secret, given: &str) -> bool {
    let (own, given) = (Sha256::digest(secret.reveal()), Sha256::digest(given));
    own.as_slice().ct_eq(given.as_slice()).into()
}

/// Returns true for a request of the operator: with the owner's token, or any if there is none (on this machine
/// only).
pub(super) fn is_operator(gateway: &HttpGateway, headers: &HeaderMap) -> bool {
    match (&gateway.config.token, bearer(headers)) {
        (None, _) => true,
        (Some(own), Some(given)) => is_same(own, given),
        (Some(_), None) => false,
    }
}

/// Returns the name that people see for a person.
pub(super) fn shown_name(person: &SenderId) -> &str {
    if person.as_str() == LOCAL { "owner" } else { person.as_str() }
}
