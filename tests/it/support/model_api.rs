//! Strict fakes of the two model APIs, on a socket of their own. They check each request whole and
//! answer from a script, if need be in odd pieces or not to the end.

pub(crate) mod rules;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use futures_util::stream::{self, StreamExt as _};
use peacrab::provider::{Config, ProviderKind, Tools};
use peacrab::secret::Secret;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::record::record;
use super::wire::HangingCalls;

/// The key that the fakes want.
pub(crate) const KEY: &str = "sk-test-0123456789";
/// The model that they know.
pub(crate) const MODEL: &str = "pea-1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    OpenAi,
    Anthropic,
}

/// Where a server tells of its context window, if it does; and where somebody looks for its models who leaves out `/v1`.
const LOOKS: [&str; 4] = ["/v1/models", "/models", "/props", "/api/ps"];

/// What the fake does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sends these pieces of an event stream, each by itself.
    Stream(Vec<Vec<u8>>, Ending),
    /// Sends a whole body.
    Whole { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// Reads the request and says nothing.
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Closes,
    /// The connection is torn down.
    Breaks,
    /// The connection stays open and nothing comes any more.
    Stalls,
}

impl Reply {
    /// A whole and well-formed event stream.
    pub(crate) fn events(events: &[Value]) -> Self {
        Self::Stream(vec![sse(events)], Ending::Closes)
    }

    pub(crate) fn error(status: u16, body: &Value) -> Self {
        Self::page(status, "application/json", &body.to_string())
    }

    pub(crate) fn page(status: u16, kind: &str, body: &str) -> Self {
        let headers = vec![("content-type", kind.to_owned())];
        Self::Whole { status, headers, body: body.to_owned() }
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Whole { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

/// Events as both vendors write them: Anthropic names each, OpenAI ends with `[DONE]`.
pub(crate) fn sse(events: &[Value]) -> Vec<u8> {
    let mut text = String::new();
    for event in events {
        if let Some(name) = event["type"].as_str() {
            text += &format!("event: {name}\n");
        }
        text += &format!("data: {event}\n\n");
    }
    if events.iter().any(|event| event.get("choices").is_some()) {
        text += "data: [DONE]\n\n";
    }
    text.into_bytes()
}

/// A running fake.
pub(crate) struct ModelApi {
    pub(crate) platform: Platform,
    pub(crate) base_url: String,
    seen: Arc<Mutex<Seen>>,
    _server: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    wants_key: bool,
    /// Requests without the key are refused, and are no mistake of a test's.
    turns_away: bool,
    /// So are those for the list of models.
    hides_models: bool,
    model: String,
    beside: Option<&'static str>,
    replies: VecDeque<Reply>,
    /// What lies at other paths.
    looks: BTreeMap<&'static str, Value>,
    requests: Vec<Value>,
    faults: Vec<String>,
    hanging: HangingCalls,
}

impl ModelApi {
    pub(crate) async fn start(platform: Platform) -> Self {
        Self::start_at(platform, TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// At an address of the caller's.
    pub(crate) fn start_at(platform: Platform, listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        // Small pieces leave at once.
        let listener = listener.tap_io(|socket| socket.set_nodelay(true).unwrap());
        let seen = Arc::new(Mutex::new(Seen {
            wants_key: true,
            model: MODEL.to_owned(),
            ..Seen::default()
        }));
        let app = Router::new().fallback(answer).with_state((platform, Arc::clone(&seen)));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        let base_url = match platform {
            Platform::OpenAi => format!("http://{address}/v1"),
            Platform::Anthropic => format!("http://{address}"),
        };
        Self { platform, base_url, seen, _server: server }
    }

    /// The config of a provider that asks it.
    pub(crate) fn config(&self) -> Config {
        Config {
            kind: match self.platform {
                Platform::OpenAi => ProviderKind::OpenAi,
                Platform::Anthropic => ProviderKind::Anthropic,
            },
            model: MODEL.to_owned(),
            api_key: Some(Secret::new(KEY)),
            base_url: self.base_url.clone(),
            tokens_max: Some(1000),
            context: 100_000,
            context_is_set: true,
            tools: Tools::Native,
            structured: Default::default(),
            images: true,
            timeouts: Default::default(),
            price: None,
        }
    }

    /// Appends to the script.
    pub(crate) fn reply(&self, reply: Reply) {
        self.seen.lock().unwrap().replies.push_back(reply);
    }

    /// From now on this is the model that there is.
    pub(crate) fn know(&self, model: &str) {
        model.clone_into(&mut self.seen.lock().unwrap().model);
    }

    /// From now on this lies at a path that servers of one's own have.
    pub(crate) fn show(&self, path: &'static str, value: Value) {
        self.seen.lock().unwrap().looks.insert(path, value);
    }

    /// From now on a request with a key is wrong.
    pub(crate) fn want_no_key(&self) {
        self.seen.lock().unwrap().wants_key = false;
    }

    /// From now on requests without the right key are refused, as vendors do.
    #[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
    pub(crate) fn turn_away(&self) {
        self.seen.lock().unwrap().turns_away = true;
    }

    /// From now on the list of models is for those who have the key.
    #[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
    pub(crate) fn hide_models(&self) {
        self.seen.lock().unwrap().hides_models = true;
    }

    /// From now on calls that come back without this field beside them are wrong.
    pub(crate) fn want_beside_calls(&self, field: &'static str) {
        self.seen.lock().unwrap().beside = Some(field);
    }

    /// The bodies so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// How many requests have got [`Reply::Silence`] that are still waited for.
    #[cfg(feature = "telegram")]
    pub(crate) fn hanging_calls(&self) -> usize {
        self.seen.lock().unwrap().hanging.count()
    }

    /// Every request was right, and every reply was fetched.
    pub(crate) fn finish(&self) {
        let seen = self.seen.lock().unwrap();
        assert!(seen.faults.is_empty(), "faulty requests: {:#?}", seen.faults);
        assert!(seen.replies.is_empty(), "nobody asked for: {:#?}", seen.replies);
    }
}

type Shared = (Platform, Arc<Mutex<Seen>>);

async fn answer(State((platform, seen)): State<Shared>, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 32 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_refused = {
        let seen = seen.lock().unwrap();
        let is_closed = if head.method == "GET" { seen.hides_models } else { seen.turns_away };
        is_closed && !header_faults(platform, &head.headers, true).is_empty()
    };
    if is_refused {
        return send(Reply::error(401, &json!({"error": {"message": "no such key"}})), &seen).await;
    }
    if head.method == "GET" && LOOKS.contains(&head.uri.path()) {
        let found = seen.lock().unwrap().looks.get(head.uri.path()).cloned();
        let status = if found.is_some() { 200 } else { 404 };
        return send(Reply::error(status, &found.unwrap_or_default()), &seen).await;
    }
    let (name, path) = match platform {
        Platform::OpenAi => ("openai", "/v1/chat/completions"),
        Platform::Anthropic => ("anthropic", "/v1/messages"),
    };
    // What imitators alone know is no matter of OpenAI's.
    let own = ["extra_content", "reasoning_content", "reasoning_details"];
    if !own.iter().any(|field| body.to_string().contains(field)) {
        record(name, head.method.as_str(), head.uri.path(), &body);
    }

    let reply = {
        let mut seen = seen.lock().unwrap();
        let mut faults = match platform {
            Platform::OpenAi => rules::openai(&body, &seen.model, seen.beside),
            Platform::Anthropic => rules::anthropic(&body, &seen.model),
        };
        faults.extend(header_faults(platform, &head.headers, seen.wants_key));
        if head.method != "POST" || head.uri.path() != path {
            faults.push(format!("{} {} is no route", head.method, head.uri));
        }
        let reply = seen.replies.pop_front();
        if reply.is_none() {
            faults.push("nobody expected this request".to_owned());
        }
        seen.requests.push(body);
        seen.faults.extend(faults.iter().cloned());
        match reply {
            Some(reply) if faults.is_empty() => reply,
            _ => Reply::error(400, &json!({"error": {"message": faults.join("; ")}})),
        }
    };
    send(reply, &seen).await
}

async fn send(reply: Reply, seen: &Mutex<Seen>) -> Response {
    match reply {
        Reply::Silence => {
            let hanging = seen.lock().unwrap().hanging.hang::<Response>();
            hanging.await
        }
        Reply::Whole { status, headers, body } => {
            let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(Body::from(body)).unwrap()
        }
        Reply::Stream(pieces, ending) => {
            let pieces = stream::iter(pieces).then(|piece| async move {
                // Lets the server send what it has, so that pieces arrive as pieces.
                tokio::task::yield_now().await;
                Ok::<_, std::io::Error>(piece)
            });
            let last = stream::once(async move {
                match ending {
                    Ending::Closes => None,
                    // Later, or it would tear down what is still to be sent.
                    Ending::Breaks => {
                        tokio::task::yield_now().await;
                        Some(Err(std::io::Error::other("torn down")))
                    }
                    Ending::Stalls => std::future::pending().await,
                }
            });
            let body = Body::from_stream(pieces.chain(last.filter_map(std::future::ready)));
            Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
        }
    }
}

fn header_faults(platform: Platform, headers: &HeaderMap, wants_key: bool) -> Vec<String> {
    let mut wanted = match platform {
        Platform::OpenAi => vec![("authorization", format!("Bearer {KEY}"))],
        Platform::Anthropic => vec![("x-api-key", KEY.to_owned())],
    };
    if !wants_key {
        wanted.clear();
    }
    if platform == Platform::Anthropic {
        wanted.push(("anthropic-version", "2023-06-01".to_owned()));
    }
    let names = ["authorization", "x-api-key", "anthropic-version"];
    let is_wrong = |name: &&str| {
        let wanted =
            wanted.iter().find(|(wanted, _)| wanted == name).map(|(_, value)| value.as_str());
        headers.get(*name).map(|value| value.to_str().unwrap()) != wanted
    };
    names.into_iter().filter(is_wrong).map(|name| format!("header {name} is wrong")).collect()
}
