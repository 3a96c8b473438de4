//! The agent as a model behind OpenAI's chat completions API, for programs and chat pages that know it. A
//! request is a message of the person to whom its token belongs. Its response is all that the bot says in that
//! session until the message has its outcome, or until somebody is asked.

mod answer;
mod request;
mod reply;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use self::answer::{AnswerProgress, PendingAnswer};
use self::reply::CompletionHead;
use self::request::{CompletionRequest, SessionChoice};
use super::access::WebPerson;
use super::chat::session_name;
use super::guard::{PathParts, parse, read_body};
use super::publish::Accepted;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use super::stream::sent_events;
use crate::bus::feed::SINGLE_REQUEST_PREFIX;
use crate::channels::web::logins::{sha256_hex, unique};
use crate::types::message::InboundContent;

/// The name of the only model.
const MODEL: &str = "peacrab";

/// The header that names a session, in requests and responses.
const SESSION_HEADER: &str = "x-peacrab-session";

/// Maximum size of a body, in bytes: a conversation with a few pictures.
const BODY_BYTES_MAX: usize = 12_000_000;

/// Maximum time of a response that is not streamed. The official clients wait for 600 seconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(590);

/// Maximum time of a stream. It shows that it is alive, so that its client waits for as long.
const STREAM_TIME_MAX: Duration = Duration::from_secs(3600);

/// Interval of comments in a quiet stream.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// `GET /v1/models`
pub(super) async fn models(State(gateway): State<Arc<HttpGateway>>, _: WebPerson) -> Json<Value> {
    Json(json!({ "object": "list", "data": [model_json(&gateway)] }))
}

/// `GET /v1/models/ID`
pub(super) async fn model(
    State(gateway): State<Arc<HttpGateway>>,
    _: WebPerson,
    PathParts(id): PathParts<String>,
) -> Result<Json<Value>, HttpRefusal> {
    check_model(&id)?;
    Ok(Json(model_json(&gateway)))
}

fn model_json(gateway: &HttpGateway) -> Value {
    let since = gateway.control.since.timestamp();
    json!({ "id": MODEL, "object": "model", "created": since, "owned_by": MODEL })
}

fn check_model(id: &str) -> Result<(), HttpRefusal> {
    match id == MODEL {
        true => Ok(()),
        false => Err(HttpRefusal::not_found(format!("the model here is `{MODEL}`"))),
    }
}

/// `POST /v1/chat/completions`
pub(super) async fn complete(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, HttpRefusal> {
    let body = read_body(request.into_body(), BODY_BYTES_MAX, gateway.config.times.body).await?;
    let request: CompletionRequest = parse(&body)?;
    drop(body);
    check_model(&request.model)?;
    request.check()?;
    let (is_streamed, with_usage) = (request.is_streamed(), request.wants_usage());
    let session = session_of(&headers, &request)?;
    let address = gateway.address(&person, session.name())?;
    let message = request.message(&session, &address.channel, &person.id)?;
    let media = message.keep_files(&gateway.web.files, &person.id).await?;
    let (text, sources) = message.into_text();
    let content = InboundContent { text, media, sources, ..InboundContent::default() };
    let id = message_id(&headers);
    let mut pending = PendingAnswer::prepare(&gateway, &person, address, &id).await?;
    if gateway.publish(&person, pending.address.clone(), &id, content).await? == Accepted::Before {
        let explanation = format!("this was accepted before; see the session {}", session.name());
        return Err(HttpRefusal::last(StatusCode::CONFLICT, explanation));
    }
    let head = CompletionHead::new(&id);
    let mut response = match is_streamed {
        true => {
            pending.wait_until(Instant::now() + STREAM_TIME_MAX);
            stream(pending, head, with_usage)
        }
        false => {
            pending.wait_until(Instant::now() + ANSWER_TIME_MAX);
            Json(whole_answer(pending, &head).await?).into_response()
        }
    };
    if let Ok(name) = HeaderValue::try_from(session.name()) {
        response.headers_mut().insert(SESSION_HEADER, name);
    }
    Ok(response)
}

/// Returns the session of a request: named by its header or its `user`, else a new one for this request alone.
fn session_of(
    headers: &HeaderMap,
    request: &CompletionRequest,
) -> Result<SessionChoice, HttpRefusal> {
    if let Some(value) = headers.get(SESSION_HEADER) {
        let name = std::str::from_utf8(value.as_bytes()).unwrap_or_default();
        return Ok(SessionChoice::Named(session_name(name)?.to_owned()));
    }
    Ok(match request.user() {
        // If it is not a valid name, its hash becomes the name.
        Some(user) => SessionChoice::Named(match session_name(user) {
            Ok(name) => name.to_owned(),
            Err(_) => format!("user-{}", &sha256_hex(user)[..16]),
        }),
        None => SessionChoice::Once(format!("{SINGLE_REQUEST_PREFIX}{}", &unique()[..12])),
    })
}

/// Returns the id of the message: the same if the client repeats a request with the same key.
fn message_id(headers: &HeaderMap) -> String {
    match headers.get("idempotency-key").and_then(|key| key.to_str().ok()) {
        Some(key) => format!("api-{}", &sha256_hex(key)[..32]),
        None => format!("api-{}", &unique()[..32]),
    }
}

async fn whole_answer(
    mut pending: PendingAnswer,
    head: &CompletionHead,
) -> Result<Value, HttpRefusal> {
    let mut text = String::new();
    loop {
        match pending.next().await? {
            AnswerProgress::Draft(_) => {}
            AnswerProgress::Text(more) => text.push_str(&more),
            AnswerProgress::Done(usage) => return Ok(head.whole(&text, usage)),
        }
    }
}

/// A streamed completion.
struct CompletionStream {
    pending: PendingAnswer,
    head: CompletionHead,
    with_usage: bool,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

fn stream(mut pending: PendingAnswer, head: CompletionHead, with_usage: bool) -> Response {
    pending.shows_drafts = true;
    let ready = VecDeque::from([head.begin()]);
    let stream = CompletionStream { pending, head, with_usage, ready, is_over: false };
    sent_events(unfold(stream, next))
}

async fn next(
    mut stream: CompletionStream,
) -> Option<(Result<Bytes, Infallible>, CompletionStream)> {
    loop {
        if let Some(ready) = stream.ready.pop_front() {
            return Some((Ok(ready), stream));
        }
        if stream.is_over {
            return None;
        }
        let comment_at = Instant::now() + COMMENT_EVERY;
        tokio::select! {
            progress = stream.pending.next() => stream.push(progress),
            () = sleep_until(comment_at) => stream.ready.push_back(Bytes::from_static(b":\n\n")),
        }
    }
}

impl CompletionStream {
    fn push(&mut self, progress: Result<AnswerProgress, HttpRefusal>) {
        match progress {
            Ok(AnswerProgress::Draft(text) | AnswerProgress::Text(text)) => {
                self.ready.push_back(self.head.delta(&text));
            }
            Ok(AnswerProgress::Done(usage)) => {
                self.ready.extend(self.head.end(self.with_usage.then_some(usage)));
                self.is_over = true;
            }
            Err(refusal) => {
                self.ready.push_back(reply::data(&refusal.body()));
                self.is_over = true;
            }
        }
    }
}
