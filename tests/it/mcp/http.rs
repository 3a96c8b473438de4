//! Servers that are reached by a URL: a strict fake of one over a real socket.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream;
use peacrab::secret::Secret;
use peacrab::tools::mcp::{Config, Via};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{call, call_in, fake, mcp_server, rig, server, trouble};

const SESSION: &str = "session-7";
const KEY: &str = "Bearer geheim";

/// How it answers what it is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Json,
    Events,
    /// Requests hang.
    Hangs,
    Html,
}

struct Fake {
    manner: Manner,
    faults: Mutex<Vec<String>>,
    said: Mutex<Vec<String>>,
}

/// A server, and what keeps it there.
struct Scene {
    fake: Arc<Fake>,
    url: String,
    _served: JoinSet<()>,
}

impl Scene {
    async fn new(manner: Manner) -> Self {
        let fake = Arc::new(Fake { manner, faults: Mutex::default(), said: Mutex::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let routes = post(asked).get(listened).delete(left);
        let router = Router::new().route("/mcp", routes).with_state(Arc::clone(&fake));
        let mut served = JoinSet::new();
        served.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { fake, url, _served: served }
    }

    fn config(&self, key: &str) -> Config {
        let headers = vec![("Authorization".to_owned(), Secret::new(key))];
        server(Via::Http { url: self.url.clone(), headers })
    }

    fn finish(self) {
        assert_eq!(*self.fake.faults.lock().unwrap(), Vec::<String>::new());
    }
}

impl Fake {
    /// What a real one would refuse.
    fn check(&self, headers: &HeaderMap, begun: bool) -> Option<Response> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if header("authorization") != Some(KEY) {
            return Some(StatusCode::UNAUTHORIZED.into_response());
        }
        let mut faults = self.faults.lock().unwrap();
        if begun && header("mcp-session-id") != Some(SESSION) {
            faults.push("no session".to_owned());
        }
        if begun && header("mcp-protocol-version").is_none() {
            faults.push("no version".to_owned());
        }
        None
    }
}

async fn asked(
    State(fake): State<Arc<Fake>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    let method = request["method"].as_str().unwrap_or_default().to_owned();
    fake.said.lock().unwrap().push(method.clone());
    if let Some(refused) = fake.check(&headers, method != "initialize") {
        return refused;
    }
    let accept = headers.get("accept").and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if !(accept.contains("application/json") && accept.contains("text/event-stream")) {
        fake.faults.lock().unwrap().push(format!("accepts {accept}"));
    }
    if request["id"].is_null() {
        return StatusCode::ACCEPTED.into_response();
    }
    let answer = fake::answer(&request, "good");
    let session = [("mcp-session-id", SESSION)];
    match fake.manner {
        Manner::Json => (session, Json(answer)).into_response(),
        Manner::Html => {
            (session, [("content-type", "text/html")], "<html>Welcome!").into_response()
        }
        Manner::Hangs if method == "tools/call" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            StatusCode::OK.into_response()
        }
        Manner::Events | Manner::Hangs => {
            let events = [
                ": hello\n\n".to_owned(),
                "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\
                 \"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n"
                    .to_owned(),
                format!("event: message\nid: 1\ndata: {answer}\n\n"),
            ];
            let events = stream::iter(events.map(|event| Ok::<_, Infallible>(Bytes::from(event))));
            let kind = [("content-type", "text/event-stream")];
            (session, kind, Body::from_stream(events)).into_response()
        }
    }
}

/// It has nothing to say by itself.
async fn listened(State(fake): State<Arc<Fake>>, headers: HeaderMap) -> Response {
    let refused = fake.check(&headers, true);
    refused.unwrap_or_else(|| StatusCode::METHOD_NOT_ALLOWED.into_response())
}

async fn left(State(fake): State<Arc<Fake>>, headers: HeaderMap) -> Response {
    fake.said.lock().unwrap().push("goodbye".to_owned());
    fake.check(&headers, true).unwrap_or_else(|| StatusCode::OK.into_response())
}

async fn is_spoken_to(manner: Manner) {
    let scene = Scene::new(manner).await;
    let mut rig = rig([("far", scene.config(KEY))]).await;
    assert_eq!(call(&mut rig, "mcp_far_echo", json!({ "text": "hello" })).await, "hello");
    assert_eq!(call(&mut rig, "mcp_far_fail", json!({})).await, "no such city");
    assert_eq!(mcp_server(&rig, "far").tools, 10);
    rig.finish().await;
    let said = scene.fake.said.lock().unwrap().clone();
    assert_eq!(said.last().map(String::as_str), Some("goodbye"), "{said:?}");
    scene.finish();
}

#[tokio::test]
async fn a_server_that_answers_in_json_is_spoken_to() {
    is_spoken_to(Manner::Json).await;
}

#[tokio::test]
async fn a_server_that_answers_in_events_is_spoken_to() {
    is_spoken_to(Manner::Events).await;
}

#[tokio::test]
async fn an_answer_without_an_end_fails_the_call_and_no_other() {
    for manner in [Manner::Json, Manner::Events] {
        let scene = Scene::new(manner).await;
        let mut rig = rig([("far", scene.config(KEY))]).await;
        let huge = call(&mut rig, "mcp_far_huge", json!({})).await;
        assert!(huge.contains("larger than 1 MB"), "{huge}");
        assert_eq!(call(&mut rig, "mcp_far_echo", json!({ "text": "on" })).await, "on");
        rig.finish().await;
        scene.finish();
    }
}

#[tokio::test]
async fn a_server_that_turns_us_away_or_is_none_is_told_of() {
    let (strict, page) = (Scene::new(Manner::Json).await, Scene::new(Manner::Html).await);
    let rig = rig([("strict", strict.config("Bearer falsch")), ("page", page.config(KEY))]).await;
    rig.wait_until(|rig| trouble(rig, "strict").contains("401")).await;
    rig.wait_until(|rig| trouble(rig, "page").contains("text/html")).await;
    assert!(!trouble(&rig, "strict").contains("falsch"));
    rig.finish().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_of_in_words() {
    let nowhere = Via::Http { url: "http://127.0.0.1:9/mcp".to_owned(), headers: Vec::new() };
    let rig = rig([("dead", server(nowhere))]).await;
    rig.wait_until(|rig| trouble(rig, "dead").contains("it cannot be reached: ")).await;
    let why = trouble(&rig, "dead");
    assert!(why.contains("refused") && !why.contains("::"), "{why}");
    rig.finish().await;
}

#[tokio::test]
async fn a_request_that_hangs_is_given_up() {
    let scene = Scene::new(Manner::Hangs).await;
    let far = Config { timeout: Duration::from_secs(1), ..scene.config(KEY) };
    let mut rig = rig([("far", far)]).await;
    let hung = call_in(&mut rig, "2", "mcp_far_echo", json!({})).await;
    assert!(hung.contains("did not answer within 1 s"), "{hung}");
    assert!(mcp_server(&rig, "far").up, "it still says what it offers");
    rig.finish().await;
    scene.finish();
}
