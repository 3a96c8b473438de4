//! Checks every request before its route: the host name that it uses, and the page that it comes from. Sets the
//! headers of every response. Any page can make a browser send requests to this machine, and let its own host
//! name resolve to it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use url::Url;

use super::refusal::HttpRefusal;
use super::state::HttpGateway;

/// Maximum size of a JSON body, in bytes.
const JSON_BYTES_MAX: usize = 512 * 1024;

/// The content security policy: only the page's own files are loaded and run. Pictures may also be data URLs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Refuses requests that another page causes, or that use a foreign host name.
pub(super) async fn check(
    State(gateway): State<Arc<HttpGateway>>,
    request: Request,
    next: Next,
) -> Response {
    let allowed = allow(&gateway, &request);
    let mut response = match allowed {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn allow(gateway: &HttpGateway, request: &Request) -> Result<(), HttpRefusal> {
    let (headers, method) = (request.headers(), request.method());
    // Of two values, a proxy may have checked the other one.
    for name in [header::HOST, header::ORIGIN] {
        if headers.get_all(&name).iter().count() > 1 {
            return Err(HttpRefusal::bad(format!("there is more than one header `{name}`")));
        }
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // A request in absolute form, as for a proxy, names the host a second time.
    let is_named_ours = |name: &Authority| is_ours(gateway, name.as_str());
    if !is_ours(gateway, host) || !request.uri().authority().is_none_or(is_named_ours) {
        return Err(HttpRefusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this host name is unknown here; add it to `hosts` in [gateway]",
        ));
    }
    let is_same = match headers.get(&header::ORIGIN) {
        Some(origin) => origin.to_str().is_ok_and(|origin| is_same_host(origin, host)),
        // Without an origin, browsers send Sec-Fetch headers. A link may be opened from another page; all else
        // is refused.
        None => {
            let fetch = |part: &str| {
                let name = format!("sec-fetch-{part}");
                headers.get(name).and_then(|value| value.to_str().ok())
            };
            let is_own = matches!(fetch("site"), None | Some("same-origin" | "none"));
            let is_read = matches!(*method, Method::GET | Method::HEAD);
            let is_opened = fetch("mode") == Some("navigate") && fetch("dest") == Some("document");
            is_own || (is_read && is_opened)
        }
    };
    match is_same {
        true => Ok(()),
        false => {
            Err(HttpRefusal::new(StatusCode::FORBIDDEN, "requests of other pages are refused"))
        }
    }
}

/// Returns true for an IP address, which no foreign name can imitate, and for the names in the config.
fn is_ours(gateway: &HttpGateway, host: &str) -> bool {
    let Ok(url) = Url::parse(&format!("http://{host}")) else { return false };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    let Some(name) = url.host_str().filter(|_| is_plain) else { return false };
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let public = gateway.config.url.as_deref().and_then(|url| Url::parse(url).ok());
    is_address
        || name == "localhost"
        || gateway.config.hosts.iter().any(|own| own == name)
        || public.is_some_and(|public| public.host_str() == Some(name))
}

/// Returns true if a page of this origin was loaded from the same host and port.
fn is_same_host(origin: &str, host: &str) -> bool {
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

/// Reads a whole body up to `bytes_max`, within `time_max`.
pub(super) async fn read_body(
    body: Body,
    bytes_max: usize,
    time_max: Duration,
) -> Result<Bytes, HttpRefusal> {
    let mut pieces = body.into_data_stream();
    let reading = async {
        let mut whole = Vec::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| HttpRefusal::bad("the body ended early"))?;
            if whole.len() + piece.len() > bytes_max {
                let explanation = format!("the body is longer than {bytes_max} bytes");
                return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, explanation));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(Bytes::from(whole))
    };
    let late = || HttpRefusal::new(StatusCode::REQUEST_TIMEOUT, "the body took too long");
    timeout(time_max, reading).await.map_err(|_| late())?
}

/// The variable parts of a path.
pub(super) struct PathParts<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParts<T> {
    type Rejection = HttpRefusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpRefusal> {
        let found = Path::from_request_parts(parts, state).await;
        let Path(found) =
            found.map_err(|_| HttpRefusal::bad("a part of this path cannot be read"))?;
        Ok(Self(found))
    }
}

/// The query of a URL.
pub(super) struct QueryFields<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryFields<T> {
    type Rejection = HttpRefusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpRefusal> {
        let found = Query::from_request_parts(parts, state).await;
        let Query(found) = found
            .map_err(|_| HttpRefusal::bad("the part of the address behind `?` cannot be read"))?;
        Ok(Self(found))
    }
}

/// A JSON body, read within size and time limits.
pub(super) struct Fields<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<HttpGateway>> for Fields<T> {
    type Rejection = HttpRefusal;

    async fn from_request(
        request: Request,
        gateway: &Arc<HttpGateway>,
    ) -> Result<Self, HttpRefusal> {
        let time_max = gateway.config.times.body;
        let body = read_body(request.into_body(), JSON_BYTES_MAX, time_max).await?;
        parse(&body).map(Self)
    }
}

/// Parses a JSON body.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, HttpRefusal> {
    let parsed = serde_json::from_slice(body);
    parsed.map_err(|error| HttpRefusal::bad(format!("cannot read the body: {error}")))
}

pub(super) async fn not_found() -> HttpRefusal {
    HttpRefusal::not_found("there is nothing at this path")
}

pub(super) async fn not_allowed() -> HttpRefusal {
    HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not support this method")
}
