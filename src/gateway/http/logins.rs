//! Signing in and out on the page. A link holds a one-time code behind its `#`, which no server sees. The page
//! uses the code only when the person presses the button.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rusqlite::Connection;
use serde::Deserialize;
use serde_json::json;

use super::access::{COOKIE, WebPerson, cookie};
use super::guard::Fields;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::channels::web::logins;
use crate::store::Sync;

/// Maximum number of attempts in a minute, of all browsers together.
const ATTEMPTS_PER_MINUTE: u32 = 20;

/// The lifetime of the cookie in a browser, in seconds: as long as an unused sign-in is valid.
const COOKIE_AGE_S: i64 = logins::IDLE_MAX.num_seconds();

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CodeEntered {
    code: String,
}

/// `POST /login`
pub(super) async fn begin(
    State(gateway): State<Arc<HttpGateway>>,
    headers: HeaderMap,
    Fields(CodeEntered { code }): Fields<CodeEntered>,
) -> Result<Response, HttpRefusal> {
    if !gateway.limits.allows("login", ATTEMPTS_PER_MINUTE) {
        return Err(HttpRefusal::too_many());
    }
    let linked = gateway.web.codes.take(&code).ok_or_else(link_refused)?;
    let person = linked.person.clone();
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or_default().to_owned();
    let (people, page) = (gateway.services().bus.people.clone(), gateway.web.name().clone());
    let begin = move |store: &Connection| match linked.is_current(store, &people, &page)? {
        true => logins::begin(store, &linked, &agent).map(Some),
        false => Ok(None),
    };
    let begun = gateway.services().bus.store.write("sign in", Sync::Now, begin).await?;
    let value = begun.ok_or_else(link_refused)?;
    tracing::info!(%person, "A browser has signed in");
    let cookie = format!(
        "{COOKIE}={}; Max-Age={COOKIE_AGE_S}{}",
        value.reveal(),
        cookie_attributes(&gateway)
    );
    Ok(([(header::SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response())
}

fn link_refused() -> HttpRefusal {
    let explanation = "this link was used before, or is too old; ask for a new one";
    HttpRefusal::new(StatusCode::UNAUTHORIZED, explanation)
}

/// `POST /logout`
pub(super) async fn end(
    State(gateway): State<Arc<HttpGateway>>,
    _: WebPerson,
    headers: HeaderMap,
) -> Result<Response, HttpRefusal> {
    if let Some(value) = cookie(&headers) {
        let value = value.to_owned();
        let end = move |store: &Connection| logins::end(store, &value);
        gateway.services().bus.store.write("sign out", Sync::Now, end).await?;
        gateway.web.note_ended_login();
    }
    let cookie = format!("{COOKIE}=; Max-Age=0{}", cookie_attributes(&gateway));
    Ok(([(header::SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response())
}

/// `GET /me`
pub(super) async fn me(person: WebPerson) -> Json<serde_json::Value> {
    Json(json!({ "name": person.name, "role": person.role.as_str(), "csrf": person.csrf }))
}

/// Returns the attributes of the cookie: scripts cannot read it, and no other page can make a browser send it.
fn cookie_attributes(gateway: &HttpGateway) -> &'static str {
    let is_encrypted = gateway.config.url.as_ref().is_some_and(|url| url.starts_with("https:"));
    match is_encrypted {
        true => "; Path=/; HttpOnly; SameSite=Strict; Secure",
        false => "; Path=/; HttpOnly; SameSite=Strict",
    }
}
