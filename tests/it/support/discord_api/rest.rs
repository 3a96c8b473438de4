//! REST as Discord speaks it: who may ask, what a call comes to, and the headers that tell of limits.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, FromRequest, Multipart, Query, Request, State as Shared};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::super::record::record;
use super::super::wire::{self, Cutter, error_page};
use super::state::{Call, Denial};
use super::{Fault, Inner};

/// What Discord takes in one message.
const BODY_MAX: usize = 11 << 20;

/// Files by their names.
type Files = Vec<(String, Vec<u8>)>;

pub(super) async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    let router = Router::new().fallback(answer).with_state(inner);
    wire::serve(listener, router).await;
}

async fn answer(
    Shared(inner): Shared<Arc<Inner>>,
    ConnectInfo(cutter): ConnectInfo<Cutter>,
    request: Request,
) -> Response {
    let method = request.method().as_str().to_owned();
    let path = request.uri().path().to_owned();
    if path.starts_with("/attachments/") {
        return file(&inner, &path, request.headers());
    }
    let Some(below) = path.strip_prefix("/api/v10/") else {
        return denied(&Denial::new(404, 0, "404: Not Found"));
    };
    if let Err(denial) = may_ask(&inner, request.headers(), below) {
        return denied(&denial);
    }
    let query = Query::<HashMap<String, String>>::try_from_uri(request.uri());
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let Some((body, files)) = body(request).await else {
        let denial = Denial::new(400, 50109, "The request body contains invalid JSON.");
        return denied(&denial);
    };
    let name = format!("{method} /{below}");
    let carries_file = !files.is_empty();
    let fault = inner.change(|state| {
        let fault = state.calls.receive(&name, body.clone());
        match carries_file {
            true => state.calls.fault(&format!("{name} with a file")).or(fault),
            false => fault,
        }
    });
    let (left, until) = match inner.change(|state| state.take(&method, below)) {
        Ok(taken) => taken,
        Err(wait) => return too_many(wait.as_secs_f64(), false),
    };
    let limits = [
        ("x-ratelimit-limit", "5".to_owned()),
        ("x-ratelimit-remaining", left.to_string()),
        ("x-ratelimit-reset-after", format!("{:.3}", until.as_secs_f64())),
        ("x-ratelimit-bucket", "abcd1234".to_owned()),
    ];
    let perform = || {
        let parts: Vec<&str> = below.split('/').collect();
        let call = Call { method: &method, path: &parts, query: &query, body: &body, files };
        let result = inner.change(|state| state.perform(call));
        if !result.as_ref().is_err_and(Denial::is_of_form) {
            record("discord", &method, &path, &body);
        }
        (limits, plain(result)).into_response()
    };
    match fault {
        None => perform(),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Slow(time)) => {
            tokio::time::sleep(time).await;
            perform()
        }
        Some(Fault::TooMany { after, is_global }) => too_many(after, is_global),
        Some(Fault::TooManyBare) => error_page(429),
        Some(Fault::Status(code)) => error_page(code),
        Some(Fault::Deny(status, code, words)) => denied(&Denial::new(status, code, words)),
        Some(Fault::StatusAfter(code)) => {
            perform();
            error_page(code)
        }
        Some(Fault::CutAfter) => {
            let answer = perform();
            cutter.cut();
            answer
        }
        Some(Fault::Garbage) => {
            let answer = perform();
            if answer.status().is_success() { "{\"id\": \"12".into_response() } else { answer }
        }
    }
}

/// Every call but an interaction's has our token; all of them say who makes them.
fn may_ask(inner: &Inner, headers: &HeaderMap, path: &str) -> Result<(), Denial> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !text(USER_AGENT).starts_with("DiscordBot (") {
        return Err(Denial::new(403, 40333, "internal network error"));
    }
    let needs_token = !path.starts_with("interactions/") && !path.starts_with("webhooks/");
    let is_ours = text(AUTHORIZATION) == format!("Bot {}", inner.look().token);
    if needs_token && (!is_ours || inner.look().is_revoked) {
        return Err(Denial::new(401, 0, "401: Unauthorized"));
    }
    Ok(())
}

/// JSON, nothing, or `payload_json` with files.
async fn body(request: Request) -> Option<(Value, Files)> {
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    if !kind.starts_with("multipart/form-data") {
        let bytes = axum::body::to_bytes(request.into_body(), BODY_MAX).await.ok()?;
        if bytes.is_empty() {
            return Some((Value::Null, Vec::new()));
        }
        let is_json = kind == "application/json";
        return Some((serde_json::from_slice(&bytes).ok().filter(|_| is_json)?, Vec::new()));
    }
    let mut request = request;
    axum::extract::DefaultBodyLimit::max(BODY_MAX).apply(&mut request);
    let mut parts = Multipart::from_request(request, &()).await.ok()?;
    let (mut body, mut files) = (None, Vec::new());
    while let Some(part) = parts.next_field().await.ok()? {
        let name = part.name()?.to_owned();
        if name == "payload_json" {
            body = serde_json::from_str(&part.text().await.ok()?).ok();
        } else if name == format!("files[{}]", files.len()) {
            let file = part.file_name()?.to_owned();
            files.push((file, part.bytes().await.ok()?.to_vec()));
        } else {
            return None;
        }
    }
    Some((body?, files))
}

/// A file as the CDN gives it: to everybody who has its whole address, and without our token.
fn file(inner: &Inner, path: &str, headers: &HeaderMap) -> Response {
    if headers.contains_key(AUTHORIZATION) {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let found = inner.look().files.get(path).cloned();
    found.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response)
}

fn plain(result: Result<Option<Value>, Denial>) -> Response {
    match result {
        Ok(Some(result)) => axum::Json(result).into_response(),
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Err(denial) => denied(&denial),
    }
}

fn denied(denial: &Denial) -> Response {
    let status = StatusCode::from_u16(denial.status).unwrap();
    let mut body = json!({ "message": denial.message, "code": denial.code });
    if let Some(more) = &denial.more {
        body["errors"] = more.clone();
    }
    (status, axum::Json(body)).into_response()
}

fn too_many(after: f64, is_global: bool) -> Response {
    let body = json!({
        "message": "You are being rate limited.", "retry_after": after, "global": is_global,
    });
    // The header is in whole seconds; the body is exact.
    let header = [("retry-after", after.ceil().to_string())];
    (StatusCode::TOO_MANY_REQUESTS, header, axum::Json(body)).into_response()
}
