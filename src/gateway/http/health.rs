//! `/health` and `/ready`. The daemon is healthy while its loop makes passes and its store writes. Channels are
//! listed with the age of their last byte, and never make it unhealthy, because a platform may be away.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::access::is_operator;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::control::health::Health;

/// Maximum number of checks in a minute, because each one writes.
const CHECKS_PER_MINUTE: u32 = 120;

/// `GET /health`
pub(super) async fn health(
    State(gateway): State<Arc<HttpGateway>>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Value>), HttpRefusal> {
    // Strangers cannot use up the operator's rate limit.
    let is_operator = is_operator(&gateway, &headers);
    let limit_name = if is_operator { "health" } else { "health of strangers" };
    if !gateway.limits.allows(limit_name, CHECKS_PER_MINUTE) {
        return Err(HttpRefusal::too_many());
    }
    let health = Health::examine(&gateway.services().bus).await;
    let status = match health.is_well() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut body = Map::new();
    body.insert("ok".to_owned(), (status == StatusCode::OK).into());
    body.insert("loop".to_owned(), health.agent_loop.into());
    body.insert("store".to_owned(), health.store.into());
    if is_operator {
        body.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        body.insert("channels".to_owned(), channels(&gateway).into());
    }
    Ok((status, Json(body.into())))
}

/// `GET /ready`: 200 while all channels are up.
pub(super) async fn ready(State(gateway): State<Arc<HttpGateway>>) -> (StatusCode, Json<Value>) {
    let is_ready = gateway.control.links.values().all(|link| link.state().up);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": is_ready })))
}

fn channels(gateway: &HttpGateway) -> Map<String, Value> {
    let age = |at: Option<DateTime<Utc>>| at.map(|at| (Utc::now() - at).num_seconds().max(0));
    let links = gateway.control.links.iter();
    let states = links.map(|(name, link)| {
        let state = link.state();
        let seen = json!({ "up": state.up, "last_byte_s": age(state.last_byte) });
        (name.to_string(), seen)
    });
    states.collect()
}
