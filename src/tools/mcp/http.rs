//! HTTP transport for servers with a URL, over the program's one HTTP client: every request is bounded in
//! time and bytes. The protocol decides when to send requests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::stream::{BoxStream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::RESULT_BYTES_MAX;
use super::flood::UnsolicitedBudget;
use super::stdio::too_large;
use crate::http::{self, BodyEnd, ReadBody};
use crate::secret::Secret;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Detects a peer that has gone while the connection is silent for hours.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Additional time of a call's request, so that the error of the call itself is reported.
const SLACK: Duration = Duration::from_secs(5);

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

type Error = StreamableHttpError<reqwest::Error>;
type McpEvents = BoxStream<'static, Result<Sse, SseError>>;

/// One server's client. It sends its headers nowhere else.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
    time_max: Duration,
    /// Counts the events of all streams together. Locked only to count.
    unasked: Arc<Mutex<UnsolicitedBudget>>,
}

impl Http {
    pub(super) fn new(
        url: &str,
        headers: &[(String, Secret)],
        call_time_max: Duration,
    ) -> anyhow::Result<Self> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            let value = HeaderValue::from_str(value.reveal());
            let mut value = value.with_context(|| format!("the header {name} cannot be sent"))?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        let builder = http::client(&Url::parse(url)?, CONNECT_TIME_MAX)
            .default_headers(map)
            .user_agent(concat!("peacrab/", env!("CARGO_PKG_VERSION")))
            .tcp_keepalive(KEEPALIVE);
        let client = builder.build().context("cannot make an HTTP client")?;
        let unasked = Arc::new(Mutex::new(UnsolicitedBudget::new()));
        Ok(Self { client, time_max: call_time_max + SLACK, unasked })
    }

    fn request(
        &self,
        method: Method,
        uri: &str,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> RequestBuilder {
        let headers: HeaderMap = headers.into_iter().collect();
        let request = self.client.request(method, uri).headers(headers);
        match session {
            Some(session) => request.header(SESSION, session),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder, until: Instant) -> Result<Response, Error> {
        let sent = timeout_at(until, request.send()).await.map_err(|_| timed_out())?;
        sent.map_err(|error| Error::Client(error.without_url()))
    }
}

/// Describes why a server could not be spoken to, without the names of types that the protocol's own errors show.
pub(super) fn first_fault(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => first_fault(fallback),
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<Error>() {
                Some(Error::Client(lost)) => {
                    let cause = http::root_cause(lost).unwrap_or_else(|| lost.to_string());
                    format!("it cannot be reached: {cause}")
                }
                _ => format!("it cannot be spoken to: {}", error.error),
            }
        }
        _ => format!("it cannot be spoken to: {error}"),
    }
}

fn timed_out() -> Error {
    Error::Io(std::io::ErrorKind::TimedOut.into())
}

fn unexpected_status(status: StatusCode) -> Error {
    let message = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!("HTTP {status}: it wants other `headers`")
        }
        _ => format!("HTTP {status}"),
    };
    Error::UnexpectedServerResponse(Cow::Owned(message))
}

/// Reads a whole body. None if it is too large.
async fn read_whole(mut response: Response, until: Instant) -> Result<Option<Vec<u8>>, Error> {
    let ReadBody { bytes, end } =
        http::read_body(&mut response, RESULT_BYTES_MAX, || Some(until)).await;
    match end {
        BodyEnd::Whole => Ok(Some(bytes)),
        BodyEnd::TooLong => Ok(None),
        BodyEnd::Late => Err(timed_out()),
        BodyEnd::Lost(error) => Err(Error::Client(error.without_url())),
    }
}

/// Returns the events of a body. Too many events end the stream, and so does one that is too large: its error is then
/// the answer to `request`.
fn events(
    response: Response,
    until: Option<Instant>,
    request: Option<RequestId>,
    unasked: &Arc<Mutex<UnsolicitedBudget>>,
) -> McpEvents {
    let unasked = Arc::clone(unasked);
    let state = (response, 0_usize, [b'\n'; 2], request, false);
    let bytes = futures_util::stream::unfold(state, move |state| {
        let unasked = Arc::clone(&unasked);
        async move {
            let (mut response, mut event_bytes, mut last, request, ended) = state;
            if ended {
                return None;
            }
            let chunk = match until {
                Some(until) => match timeout_at(until, response.chunk()).await {
                    Ok(chunk) => chunk,
                    Err(_) => return None,
                },
                None => response.chunk().await,
            };
            let chunk = chunk.ok()??;
            let mut ends = 0;
            for &byte in chunk.iter().filter(|byte| **byte != b'\r') {
                // An empty line ends an event.
                let is_end = (last[1], byte) == (b'\n', b'\n');
                ends += usize::from(is_end && event_bytes > 0);
                event_bytes = if is_end { 0 } else { event_bytes + 1 };
                last = [last[1], byte];
            }
            let mut budget = unasked.lock().unwrap_or_else(PoisonError::into_inner);
            if !(0..ends).all(|_| budget.take(0)) {
                tracing::warn!("An MCP server says too much unasked, will disconnect it");
                return None;
            }
            drop(budget);
            if event_bytes <= RESULT_BYTES_MAX {
                return Some((Ok(chunk), (response, event_bytes, last, request, false)));
            }
            // The incomplete event is not valid JSON in either case. The following line is.
            let answer =
                request.map(too_large).and_then(|answer| serde_json::to_string(&answer).ok());
            let answer = format!("\n\ndata: {}\n\n", answer.unwrap_or_default());
            Some((Ok::<_, reqwest::Error>(answer.into()), (response, 0, last, None, true)))
        }
    });
    SseStream::from_bytes_stream(bytes).boxed()
}

fn media_type(response: &Response) -> &str {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim()
}

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let until = Instant::now() + self.time_max;
        let request_id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let request = self.request(Method::POST, &uri, session.as_deref(), headers);
        let request = request.header(ACCEPT, format!("{EVENTS}, {JSON}")).json(&message);
        let response = self.send(request, until).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(Error::SessionExpired);
        }
        let Some(request_id) = request_id else {
            // Nothing was requested, so any success means "accepted".
            let accepted = StreamableHttpPostResponse::Accepted;
            return if status.is_success() { Ok(accepted) } else { Err(unexpected_status(status)) };
        };
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        match media_type(&response) {
            EVENTS if status.is_success() => {
                let events = events(response, Some(until), Some(request_id), &self.unasked);
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            // Protocol errors arrive with all kinds of statuses.
            JSON => {
                let Some(body) = read_whole(response, until).await? else {
                    return Ok(StreamableHttpPostResponse::Json(too_large(request_id), session));
                };
                match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                    Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
                    Err(error) if status.is_success() => Err(error.into()),
                    Err(_) => Err(unexpected_status(status)),
                }
            }
            kind if status.is_success() => Err(Error::UnexpectedContentType(Some(kind.to_owned()))),
            _ => Err(unexpected_status(status)),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        let request = self.request(Method::DELETE, &uri, Some(&session), headers);
        self.send(request, Instant::now() + SLACK).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<McpEvents, Error> {
        let mut request = self.request(Method::GET, &uri, session.as_deref(), headers);
        if let Some(last_event) = last_event {
            request = request.header(LAST_EVENT, last_event);
        }
        let request = request.header(ACCEPT, EVENTS);
        let response = self.send(request, Instant::now() + self.time_max).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(Error::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(unexpected_status(status)),
            _ if media_type(&response) != EVENTS => Err(Error::ServerDoesNotSupportSse),
            // It may be silent for hours, as long as the connection stands.
            _ => Ok(events(response, None, None, &self.unasked)),
        }
    }
}
