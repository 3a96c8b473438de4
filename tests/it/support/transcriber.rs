//! A strict fake of an endpoint like OpenAI's audio/transcriptions, on a socket of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Multipart, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use peacrab::provider::transcription::{Config, Transcriber};
use peacrab::secret::Secret;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::model_api::KEY;

/// The model that it knows.
pub(crate) const EARS: &str = "ears-1";

/// What it was sent once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Heard {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) language: Option<String>,
}

#[derive(Default)]
struct Seen {
    /// Status and body.
    replies: VecDeque<(u16, String)>,
    heard: Vec<Heard>,
    faults: Vec<String>,
}

pub(crate) struct FakeTranscriber {
    pub(crate) base_url: String,
    seen: Arc<Mutex<Seen>>,
    _server: JoinSet<()>,
}

impl FakeTranscriber {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let app = Router::new()
            .route("/v1/audio/transcriptions", post(answer))
            .with_state(Arc::clone(&seen));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { base_url, seen, _server: server }
    }

    /// One that speaks to it.
    pub(crate) fn transcriber(&self, language: Option<&str>) -> Arc<Transcriber> {
        let config = Config {
            base_url: self.base_url.clone(),
            model: EARS.to_owned(),
            api_key: Some(Secret::new(KEY)),
            language: language.map(str::to_owned),
        };
        Arc::new(Transcriber::new(&config).unwrap())
    }

    pub(crate) fn writes(&self, text: &str) {
        self.replies(200, &json!({"text": text}).to_string());
    }

    pub(crate) fn replies(&self, status: u16, body: &str) {
        self.seen.lock().unwrap().replies.push_back((status, body.to_owned()));
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.seen.lock().unwrap().heard.clone()
    }

    /// Every request was right, and every reply was fetched.
    pub(crate) fn finish(&self) {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.faults, Vec::<String>::new());
        assert!(seen.replies.is_empty(), "nobody asked for: {:?}", seen.replies);
    }
}

async fn answer(
    State(seen): State<Arc<Mutex<Seen>>>,
    headers: HeaderMap,
    mut form: Multipart,
) -> (StatusCode, String) {
    let mut faults = Vec::new();
    if headers.get("authorization").map(|key| key.to_str().unwrap())
        != Some(&format!("Bearer {KEY}"))
    {
        faults.push("the key is wrong".to_owned());
    }
    let mut heard = Heard::default();
    let mut fields = Vec::new();
    while let Some(field) = form.next_field().await.unwrap() {
        let name = field.name().unwrap_or_default().to_owned();
        fields.push(name.clone());
        if name == "file" {
            heard.name = field.file_name().unwrap_or_default().to_owned();
            heard.bytes = field.bytes().await.unwrap().to_vec();
            continue;
        }
        let text = field.text().await.unwrap();
        match (name.as_str(), text.as_str()) {
            ("model", EARS) | ("response_format", "json") => {}
            ("language", language) => heard.language = Some(language.to_owned()),
            other => faults.push(format!("a wrong field {other:?}")),
        }
    }
    fields.sort();
    fields.retain(|field| field != "language");
    if fields != ["file", "model", "response_format"] {
        faults.push(format!("the fields are {fields:?}"));
    }
    // It tells formats by the name's ending.
    let ending = heard.name.rsplit_once('.').map(|(_, ending)| ending);
    if !matches!(ending, Some("ogg" | "mp3" | "m4a" | "wav" | "webm")) || heard.bytes.is_empty() {
        faults.push(format!("the file is called {}", heard.name));
    }
    let mut seen = seen.lock().unwrap();
    let reply = seen.replies.pop_front();
    if reply.is_none() {
        faults.push("nobody expected this request".to_owned());
    }
    seen.heard.push(heard);
    seen.faults.extend(faults.iter().cloned());
    let (status, body) = match reply {
        Some(reply) if faults.is_empty() => reply,
        _ => (400, json!({"error": {"message": faults.join("; ")}}).to_string()),
    };
    (StatusCode::from_u16(status).unwrap(), body)
}
