//! One GET with its redirects. Every hop is checked before its request, and its name's addresses when the
//! connection is opened, so the connection goes to the checked addresses. Bounded in hops, bytes and
//! time. Does not interpret bodies.

use std::error::Error;
use std::fs::File;
use std::io::{self, Seek};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::address::{Forbidden, Gate};
use super::{helper, page};
use crate::http::{self, BodyEnd};
use crate::short_text::shortened;
use crate::tools::ToolError;
use crate::types::source::Source;

/// The user agent for servers.
pub(super) const USER_AGENT: &str = concat!(
    "peacrab/",
    env!("CARGO_PKG_VERSION"),
    " (+an assistant that reads what its person asks for)"
);

/// Maximum length of a connection error for a model.
const CAUSE_CHARS_MAX: usize = 200;

/// Limits of one fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// Time limit for opening one connection.
    pub connect: Duration,
    /// Time limit from the first request to the last byte.
    pub whole: Duration,
    /// Maximum size of a body, in bytes. The rest is not read.
    pub bytes: usize,
    /// Maximum number of redirects in a row.
    pub redirects: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // A slow page on a slow line. The agent's own limit for a tool is two minutes.
            whole: Duration::from_secs(30),
            bytes: 5_000_000,
            redirects: 5,
        }
    }
}

/// A body that may be read as text.
pub(super) struct FetchedBody {
    /// The final address.
    pub(super) url: Url,
    /// Made by [`helper::begin_body`].
    pub(super) file: File,
    /// The reason if it is incomplete.
    pub(super) cut: Option<String>,
}

/// Looks names up like the system does.
pub struct SystemNames;

impl Resolve for SystemNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Looks a name up once, for the connection that is about to be opened, and returns only addresses that
/// pass the check.
struct CheckedNames {
    names: Arc<dyn Resolve>,
    gate: Gate,
    port: u16,
}

impl Resolve for CheckedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let (gate, port, text) = (self.gate.clone(), self.port, name.as_str().to_owned());
        let found = self.names.resolve(name);
        Box::pin(async move {
            let chosen = gate.choose(&text, port, found.await?.map(|address| address.ip()))?;
            Ok(Box::new(chosen.into_iter().map(move |ip| (ip, port).into())) as Addrs)
        })
    }
}

/// Fetches pages from allowed addresses.
pub(super) struct RedirectFetcher {
    pub(super) gate: Gate,
    pub(super) names: Arc<dyn Resolve>,
    pub(super) limits: FetchLimits,
}

/// The result of a hop.
enum Hop {
    Reached(Response),
    Redirect(Url),
}

fn refused(url: &Url, why: impl AsRef<str>) -> ToolError {
    ToolError::TellModel(refusal(url, why.as_ref()))
}

/// Returns the explanation for the model that a URL is not fetched.
pub(super) fn refusal(url: &Url, why: &str) -> String {
    format!("{} cannot be fetched: {why}.", display_url(url))
}

fn transient(url: &Url, why: impl AsRef<str>) -> ToolError {
    ToolError::Transient(format!("{} could not be fetched: {}.", display_url(url), why.as_ref()))
}

/// Marks an error's text as untrusted.
fn untrusted(url: &Url, error: ToolError) -> ToolError {
    match error {
        ToolError::TellModel(message) | ToolError::Transient(message) => {
            ToolError::TellUntrusted(Source::Page { url: url.to_string() }, message)
        }
        error @ (ToolError::TellUntrusted(..) | ToolError::Abort(_)) => error,
    }
}

/// Formats a URL for a sentence: without credentials, and not too long.
fn display_url(url: &Url) -> String {
    const CHARS_MAX: usize = 300;
    let mut url = url.clone();
    url.set_password(None).ok();
    url.set_username("").ok();
    shortened(url.as_str(), CHARS_MAX)
}

impl RedirectFetcher {
    /// Fetches `url` with its redirects. Errors about addresses to which others have redirected count as
    /// untrusted text.
    pub(super) async fn fetch(&self, url: Url) -> Result<FetchedBody, ToolError> {
        let until = Instant::now() + self.limits.whole;
        let mut target = match self.hop(&url, until).await? {
            Hop::Reached(response) => return self.read(url, response, until).await,
            Hop::Redirect(next) => next,
        };
        for _ in 0..self.limits.redirects {
            match self.hop(&target, until).await.map_err(|error| untrusted(&url, error))? {
                Hop::Reached(response) => {
                    let read = self.read(target, response, until).await;
                    return read.map_err(|error| untrusted(&url, error));
                }
                Hop::Redirect(next) => target = next,
            }
        }
        Err(refused(&url, format!("it is redirected more than {} times", self.limits.redirects)))
    }

    async fn hop(&self, url: &Url, until: Instant) -> Result<Hop, ToolError> {
        self.gate.check(url).map_err(|Forbidden(why)| refused(url, why))?;
        let names = CheckedNames {
            names: Arc::clone(&self.names),
            gate: self.gate.clone(),
            port: url.port_or_known_default().unwrap_or_default(),
        };
        // A new client for each hop: no connection is kept open, and no looked-up address is used for
        // another one. A proxy would look names up itself.
        let client = http::client(url, self.limits.connect)
            .no_proxy()
            .dns_resolver(Arc::new(names))
            .user_agent(USER_AGENT)
            .referer(false)
            .build()
            .map_err(|error| ToolError::Abort(error.into()))?;
        let request = client
            .get(url.clone())
            .header(ACCEPT, "text/markdown, text/html;q=0.9, text/*;q=0.8, */*;q=0.5")
            // The body is read up to a bound. Decompression must not exceed it.
            .header(ACCEPT_ENCODING, "identity");
        let response = timeout_at(until, request.send())
            .await
            .map_err(|_| transient(url, self.late()))?
            .map_err(|error| unreachable(url, &error))?;
        match response.headers().get(LOCATION) {
            Some(location) if is_redirect(response.status()) => {
                resolve_redirect(url, location.as_bytes()).map(Hop::Redirect)
            }
            _ => Ok(Hop::Reached(response)),
        }
    }

    async fn read(
        &self,
        url: Url,
        mut response: Response,
        until: Instant,
    ) -> Result<FetchedBody, ToolError> {
        check_status(&url, response.status())?;
        let header = |name| {
            let value: Option<&reqwest::header::HeaderValue> = response.headers().get(name);
            value.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_lowercase())
        };
        let content_type = header(CONTENT_TYPE);
        let encoding = header(CONTENT_ENCODING).filter(|it| !it.is_empty() && it != "identity");
        if encoding.is_some() {
            return Err(refused(
                &url,
                "its server sends it compressed, though it was asked not to",
            ));
        }
        page::check_type(content_type.as_deref())
            .map_err(|why| untrusted(&url, refused(&url, why)))?;
        let bytes_max = self.limits.bytes;
        let broken = |error: io::Error| ToolError::Abort(error.into());
        let mut file = helper::begin_body(&url, content_type.as_deref()).map_err(broken)?;
        let body_start = file.stream_position().map_err(broken)?;
        let end = http::copy_body(&mut response, &mut file, bytes_max, || Some(until)).await;
        let is_empty = file.stream_position().map_err(broken)? == body_start;
        let cut = match end.map_err(broken)? {
            BodyEnd::Whole => None,
            BodyEnd::TooLong => Some(format!("only its first {bytes_max} bytes were read")),
            BodyEnd::Late if is_empty => return Err(transient(&url, self.late())),
            BodyEnd::Late => Some(format!("its server was too slow: {}", self.late())),
            BodyEnd::Lost(error) => return Err(unreachable(&url, &error)),
        };
        Ok(FetchedBody { url, file, cut })
    }

    fn late(&self) -> String {
        format!("it took longer than {} s", self.limits.whole.as_secs_f32())
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns the target of a redirect from `url`. `location` is its `Location` header. The target is checked
/// like every address before it is requested.
pub fn resolve_redirect(url: &Url, location: &[u8]) -> Result<Url, ToolError> {
    let location = std::str::from_utf8(location).ok().and_then(|location| url.join(location).ok());
    let mut next = location.ok_or_else(|| refused(url, "it redirects to an invalid address"))?;
    next.set_fragment(None);
    if url.scheme() == "https" && next.scheme() == "http" {
        let message =
            "it is redirected to an address that is not encrypted; if that is as good, fetch";
        return Err(untrusted(url, refused(url, format!("{message} {}", display_url(&next)))));
    }
    Ok(next)
}

/// Returns an error for a status that is not a success.
fn check_status(url: &Url, status: StatusCode) -> Result<(), ToolError> {
    let reason = format!("its server answers {status}");
    match status.as_u16() {
        200..=299 => Ok(()),
        401 | 403 => Err(refused(url, format!("{reason}; it may be for those who are signed in"))),
        408 | 425 | 429 | 500.. => Err(transient(url, reason)),
        _ => Err(refused(url, reason)),
    }
}

/// Returns the error for a connection that failed, or was forbidden.
fn unreachable(url: &Url, error: &reqwest::Error) -> ToolError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(Forbidden(why)) = inner.downcast_ref() {
            return refused(url, why);
        }
        cause = inner.source();
    }
    let cause = http::root_cause(error).unwrap_or_else(|| "the connection broke".to_owned());
    // A certificate may contain any names.
    transient(url, cause.chars().take(CAUSE_CHARS_MAX).collect::<String>())
}
