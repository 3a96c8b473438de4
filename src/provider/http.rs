//! The HTTP side of model APIs: one client, a request, and the events of its answer. Knows neither vendor. `fault.rs`
//! classifies the errors.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use chrono::Utc;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::multipart::Form;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use super::window::ContextWindow;
use super::wire::{self, DeltaReader};
use super::{DeltaStream, HttpTimeouts, ProviderError, tool_json};
use crate::http::{self, BodyEnd, ReadBody};
use crate::provider::fault::{self, ApiFault};
use crate::secret::Secret;

/// Maximum number of bytes read of an error's body; people never see more.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Maximum time to wait for the body of an error.
const ERROR_WAIT: Duration = Duration::from_secs(5);
/// Limits of a question about the server itself: a completion waits for it. The list of models may be long.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);
const LOOK_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of one event. Servers that do not stream calls put a whole file's text into one.
const EVENT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum size of a whole answer as sent, of which the text is a small part. Larger ones repeat themselves.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The error of a request without an answer.
pub(super) struct PostFailure {
    pub(super) error: ProviderError,
    /// True if the server may have refused a field of the request.
    pub(super) is_about_body: bool,
}

impl From<ProviderError> for PostFailure {
    fn from(error: ProviderError) -> Self {
        Self { error, is_about_body: false }
    }
}

/// The URL for completions, with its client and limits.
pub(super) struct ModelEndpoint {
    client: Client,
    pub(super) url: Url,
    key: Option<Secret>,
    limits: HttpTimeouts,
    /// Learns from refusals.
    window: Option<Arc<ContextWindow>>,
}

/// An API key in its header. The scheme stands before the key.
pub(super) struct ApiKeyHeader<'a> {
    pub(super) header: HeaderName,
    pub(super) scheme: &'static str,
    pub(super) key: &'a Secret,
}

impl ModelEndpoint {
    /// Creates the endpoint. `key` is sent with each request, never to another host, as redirects are not followed.
    pub(super) fn new(
        url: &str,
        key: Option<ApiKeyHeader<'_>>,
        mut headers: HeaderMap,
        limits: HttpTimeouts,
    ) -> anyhow::Result<Self> {
        let url = Url::parse(url).with_context(|| format!("base_url is not a URL: {url}"))?;
        ensure!(matches!(url.scheme(), "http" | "https"), "base_url is not an HTTP URL: {url}");
        if let Some(ApiKeyHeader { header, scheme, key }) = &key {
            let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.reveal().trim()))
                .context("api_key contains invalid characters")?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(Self {
            client: client(&url, headers, limits)?,
            url,
            key: key.map(|it| it.key.clone()),
            limits,
            window: None,
        })
    }

    /// Learns the context window from refusals.
    pub(super) fn learning(self, window: &Arc<ContextWindow>) -> Self {
        Self { window: Some(Arc::clone(window)), ..self }
    }

    /// Returns the JSON at another path of the same server, beside the completions or below its root. None if there is
    /// no such path.
    ///
    /// # Errors
    /// The server could not be asked.
    pub(super) async fn get_json(&self, path: &str) -> Result<Option<Value>, ()> {
        let relative = if path.starts_with('/') { path.to_owned() } else { format!("../{path}") };
        let url = self.url.join(&relative).map_err(drop)?;
        let read = async {
            let response = self.client.get(url).send().await.map_err(drop)?;
            if !response.status().is_success() {
                return Ok(None);
            }
            let now = Instant::now();
            let (until, end) = (now + LOOK_TIME_MAX, now + LOOK_TIME_MAX);
            let mut body = AnswerBody { response, until, end, stall: LOOK_TIME_MAX };
            let text = body.read(LOOK_BYTES_MAX).await.map_err(drop)?;
            Ok(serde_json::from_str(&text).ok())
        };
        timeout(LOOK_TIME_MAX, read).await.unwrap_or(Err(()))
    }

    /// Posts `body`. Returns the deltas that `reader` makes of the answer, once it has begun without an error.
    pub(super) async fn stream(
        &self,
        body: tool_json::RequestBody,
        reader: impl DeltaReader,
    ) -> Result<DeltaStream<'static>, PostFailure> {
        Ok(wire::deltas(self.post(body).await?, reader))
    }

    async fn post(&self, body: tool_json::RequestBody) -> Result<SseEvents, PostFailure> {
        let bytes = serialize(&body);
        // It may hold pictures, which need not be in memory twice during the wait.
        drop(body);
        let request = self.client.post(self.url.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(bytes);
        let (kind, body) = self.send(request).await?;
        let mut events = SseEvents {
            body: Some(body),
            parser: Parser::default(),
            ready: VecDeque::new(),
            bytes: 0,
            key: self.key.clone(),
            window: self.window.clone(),
        };
        if kind == "application/json" {
            events.take_whole().await?;
        }
        Ok(events)
    }

    /// Posts a form and returns the whole answer, or its first `bytes_max`.
    pub(super) async fn post_form(
        &self,
        form: Form,
        bytes_max: usize,
    ) -> Result<String, ProviderError> {
        let sent = self.send(self.client.post(self.url.clone()).multipart(form)).await;
        let (_, mut body) = sent.map_err(|failure| failure.error)?;
        body.read(bytes_max).await
    }

    /// Sends a request. Returns the media type and the body of an answer that has begun without an error.
    async fn send(&self, request: RequestBuilder) -> Result<(String, AnswerBody), PostFailure> {
        let now = Instant::now();
        let until = now + self.limits.begin;
        let response = timeout_at(until, request.send())
            .await
            .map_err(|_| no_first_byte(self.limits.begin))?
            .map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let after = fault::retry_after(response.headers(), Utc::now());
        let kind = media_type(&response);
        let mut body =
            AnswerBody { response, until, end: now + self.limits.whole, stall: self.limits.stall };

        if !status.is_success() || kind == "text/html" {
            // An error whose body cannot be read is classified by its status alone.
            body.end = Instant::now() + ERROR_WAIT;
            let text = body.read(ERROR_BYTES_MAX).await.unwrap_or_default();
            let fault = ApiFault::of_response(status.as_u16(), after, &text);
            learn(self.window.as_deref(), &fault);
            let error = fault.classify(self.key.as_ref());
            let is_about_body = matches!(error, ProviderError::Refused(_))
                && matches!(status.as_u16(), 400 | 422 | 501);
            return Err(PostFailure { error, is_about_body });
        }
        Ok((kind, body))
    }

    fn unreachable(&self, error: &reqwest::Error) -> ProviderError {
        let host = self.url.host_str().unwrap_or_default();
        ProviderError::busy(format!("cannot reach {host}: {}", root_cause(error)))
    }
}

fn learn(window: Option<&ContextWindow>, fault: &ApiFault) {
    if let (Some(window), Some(tokens)) = (window, fault.window()) {
        window.refused(tokens);
    }
}

/// Serializes a body. Counts its bytes first, because a growing buffer may take twice the memory.
fn serialize(body: &tool_json::RequestBody) -> Vec<u8> {
    let mut count = Count(0);
    let counted = serde_json::to_writer(&mut count, body);
    let mut bytes = Vec::with_capacity(count.0);
    counted
        .and_then(|()| serde_json::to_writer(&mut bytes, body))
        .expect("a JSON value can be written to memory");
    bytes
}

struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Idle time after which a connection is closed, so that those of a peak do not stay: each is a descriptor
/// and some tens of kilobytes. In a conversation the next request mostly comes sooner.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Creates the client. No other code does, so that every request has its limits.
fn client(url: &Url, headers: HeaderMap, limits: HttpTimeouts) -> anyhow::Result<Client> {
    let builder = http::client(url, limits.connect)
        .default_headers(headers)
        .user_agent(concat!("peacrab/", env!("CARGO_PKG_VERSION")))
        .tcp_keepalive(limits.stall)
        .pool_idle_timeout(IDLE_MAX);
    builder.build().context("cannot make an HTTP client")
}

fn media_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.split(';').next()).unwrap_or_default().trim().to_lowercase()
}

/// The innermost error, which names the cause; the outer ones repeat the URL.
fn root_cause(error: &reqwest::Error) -> String {
    http::root_cause(error).unwrap_or_else(|| error.to_string())
}

fn no_first_byte(limit: Duration) -> ProviderError {
    ProviderError::busy(format!("the server sent nothing for {} s", limit.as_secs_f32()))
}

fn stalled() -> ProviderError {
    ProviderError::Stalled("the answer stalled".to_owned())
}

fn cut_off(error: &reqwest::Error) -> ProviderError {
    ProviderError::Broken(format!("the answer was cut off: {}", root_cause(error)))
}

/// An answer's bytes, each awaited no longer than the limits allow.
struct AnswerBody {
    response: Response,
    /// The deadline of the next byte.
    until: Instant,
    /// The deadline of the last byte.
    end: Instant,
    stall: Duration,
}

impl AnswerBody {
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, ProviderError> {
        let until = self.until.min(self.end);
        let chunk = timeout_at(until, self.response.chunk())
            .await
            .map_err(|_| stalled())?
            .map_err(|error| cut_off(&error))?;
        self.until = Instant::now() + self.stall;
        Ok(chunk.map(Vec::from))
    }

    /// Reads all of it, or its first `bytes_max`.
    async fn read(&mut self, bytes_max: usize) -> Result<String, ProviderError> {
        let (mut first, stall, end) = (Some(self.until), self.stall, self.end);
        let until = || Some(first.take().unwrap_or_else(|| Instant::now() + stall).min(end));
        let ReadBody { bytes, end } = http::read_body(&mut self.response, bytes_max, until).await;
        match end {
            BodyEnd::Whole | BodyEnd::TooLong => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            BodyEnd::Late => Err(stalled()),
            BodyEnd::Lost(error) => Err(cut_off(&error)),
        }
    }
}

/// The payloads of an event stream, in order.
pub(super) struct SseEvents {
    body: Option<AnswerBody>,
    parser: Parser,
    ready: VecDeque<String>,
    bytes: usize,
    key: Option<Secret>,
    window: Option<Arc<ContextWindow>>,
}

impl SseEvents {
    /// Returns the next payload. None when the server has closed the stream.
    pub(super) async fn next(&mut self) -> Result<Option<String>, ProviderError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(body) = &mut self.body else { return Ok(None) };
            match body.chunk().await? {
                Some(chunk) => {
                    self.bytes += chunk.len();
                    self.parser.feed(&chunk, &mut self.ready);
                    if self.bytes > ANSWER_BYTES_MAX || self.parser.held() > EVENT_BYTES_MAX {
                        return Err(ProviderError::Refused(
                            "the answer does not end; check the model".to_owned(),
                        ));
                    }
                }
                None => {
                    self.body = None;
                    self.parser.flush(&mut self.ready);
                }
            }
        }
    }

    /// Classifies an error object in place of an event.
    pub(super) fn classify(&self, event: &Value) -> ProviderError {
        let fault = ApiFault::of_event(event);
        learn(self.window.as_deref(), &fault);
        fault.classify(self.key.as_ref())
    }

    /// Reads the whole answer of a server that does not stream as one event.
    async fn take_whole(&mut self) -> Result<(), ProviderError> {
        if let Some(mut body) = self.body.take() {
            self.ready.push_back(body.read(ANSWER_BYTES_MAX).await?);
        }
        Ok(())
    }
}

/// Parses the payloads of server-sent events. Both vendors repeat the event's name in them. Our own code, because
/// the ready-made parser fails on fields it does not know (older llama.cpp reports errors in a field `error`) and
/// holds lines of any length.
#[derive(Default)]
pub struct Parser {
    line: Vec<u8>,
    data: Vec<u8>,
    after_cr: bool,
}

impl Parser {
    /// Takes the next bytes of the stream, and appends the payloads that they complete to `events`.
    pub fn feed(&mut self, bytes: &[u8], events: &mut VecDeque<String>) {
        for &byte in bytes {
            match byte {
                b'\n' if self.after_cr => {}
                b'\n' | b'\r' => self.end_line(events),
                _ => self.line.push(byte),
            }
            self.after_cr = byte == b'\r';
        }
    }

    /// Returns the bytes of an unfinished event.
    fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Appends the last payload at the end of the stream: servers forget the empty line after it.
    pub fn flush(&mut self, events: &mut VecDeque<String>) {
        self.end_line(events);
        self.end_event(events);
    }

    fn end_line(&mut self, events: &mut VecDeque<String>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_event(events);
        }
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line);
        let trim = |value: &[u8]| value.strip_prefix(b" ").unwrap_or(value).to_vec();
        if let Some(value) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend(trim(value));
        } else if let Some(value) = line.strip_prefix(b"error:") {
            self.data = [b"{\"error\":".as_slice(), &trim(value), b"}"].concat();
        }
    }

    fn end_event(&mut self, events: &mut VecDeque<String>) {
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            events.push_back(String::from_utf8_lossy(&data).into_owned());
        }
    }
}
