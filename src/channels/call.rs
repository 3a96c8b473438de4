//! The parts of an HTTP call that all platforms share: the client, the body of a response, and whether a
//! failed call may have had an effect. The content of a request, and the form and meaning of a refusal,
//! are in the adapters.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use super::ChannelError;
use crate::http::{self, BodyEnd, ReadBody};

/// Idle time after which a connection is not reused. Servers and routers forget idle connections, and a
/// request lost in one may or may not have arrived.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Maximum size of a response, in bytes. A hundred updates with the longest texts are well below, and so
/// are two hundred messages.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// A failed call, sorted by whether it may have had an effect.
#[derive(Debug)]
pub(super) enum CallError<P> {
    /// There was no connection: the request was not sent.
    NotSent(String),
    /// The connection was lost, or the deadline passed, after the request may have been sent.
    Lost(String),
    /// The server refused the request.
    Denied(Denial<P>),
    /// The server reported success, but its answer cannot be parsed.
    Unreadable(String),
}

/// The meaning of a refusal for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialKind {
    /// Only the operator can help.
    Closed,
    /// The rate limit was exceeded.
    Limited,
    /// Not done. Another attempt may succeed.
    Later,
    /// It may have been done.
    MaybeDone,
    /// Permanent, for any request.
    Never,
    /// Permanent for this message. A call that changes nothing may be repeated.
    Unsendable,
}

/// A row of a platform's table of refusals.
pub struct DenialRow<Pattern: 'static> {
    /// HTTP statuses that match. Empty matches any.
    pub statuses: &'static [u16],
    /// Patterns of which the refusal must match one. Empty matches any refusal.
    pub patterns: &'static [Pattern],
    pub kind: DenialKind,
    /// An explanation for people. Empty if the platform's own text is used. `{error}` is replaced by that
    /// text.
    pub meaning: &'static str,
}

/// Creates a row. The name is short, so that a table stays readable.
pub const fn row<Pattern>(
    statuses: &'static [u16],
    patterns: &'static [Pattern],
    kind: DenialKind,
    meaning: &'static str,
) -> DenialRow<Pattern> {
    DenialRow { statuses, patterns, kind, meaning }
}

/// A refusal of a call.
#[derive(Debug, Default)]
pub struct Denial<P> {
    /// The HTTP status, unless the answer had a code of its own.
    pub status: u16,
    /// The platform's own error text.
    pub error_text: String,
    /// The pause that the platform demands.
    pub after: Option<Duration>,
    /// An alternative explanation, if the answer may come from a server other than the platform's.
    pub ambiguity: Option<String>,
    /// Facts that only this platform reports.
    pub details: P,
}

/// The form in which a platform refuses requests.
pub trait Platform: Sized + Default {
    /// Identifies a refusal besides its status: an error code of the platform, or a word.
    type Pattern: 'static;

    /// The platform's name in error texts.
    const NAME: &'static str;

    /// The first matching row counts. A refusal that matches none is tried again.
    const REFUSALS: &'static [DenialRow<Self::Pattern>];

    fn matches(denial: &Denial<Self>, pattern: &Self::Pattern) -> bool;

    /// Describes the refusal completely, for the log.
    fn describe(denial: &Denial<Self>) -> String {
        let (name, status) = (Self::NAME, denial.status);
        match (&denial.ambiguity, denial.error_text.as_str()) {
            (Some(ambiguity), _) => format!("{name} answers with {ambiguity}"),
            (None, "") => format!("{name} answers with {status}"),
            (None, error) => format!("{name} answers with {status}: {error}"),
        }
    }

    /// Explains a refused message that the table has no text for.
    fn refusal(denial: &Denial<Self>) -> String {
        match denial.ambiguity {
            Some(_) => Self::describe(denial),
            None => format!("{} refuses the message: {}", Self::NAME, denial.error_text),
        }
    }

    /// Fills the placeholders in a row's text.
    fn explain(denial: &Denial<Self>, meaning: &str) -> String {
        meaning.replace("{error}", &denial.error_text)
    }
}

impl<P: Platform> Denial<P> {
    /// Creates a refusal that has only a status.
    pub fn from_status(status: StatusCode) -> Self {
        let error_text = status.canonical_reason().unwrap_or("an unknown status").to_owned();
        Self { status: status.as_u16(), error_text, ..Self::default() }
    }

    fn row(&self) -> Option<&'static DenialRow<P::Pattern>> {
        P::REFUSALS.iter().find(|row| {
            (row.statuses.is_empty() || row.statuses.contains(&self.status))
                && (row.patterns.is_empty()
                    || row.patterns.iter().any(|pattern| P::matches(self, pattern)))
        })
    }

    pub(super) fn kind(&self) -> DenialKind {
        self.row().map_or(DenialKind::Later, |row| row.kind)
    }

    pub(super) fn meaning(&self) -> &'static str {
        self.row().map_or("", |row| row.meaning)
    }

    /// Returns the error of a call that changes nothing visible.
    fn while_asking(self) -> ChannelError {
        match self.kind() {
            DenialKind::MaybeDone | DenialKind::Unsendable => self.unavailable(),
            _ => self.while_sending(),
        }
    }

    /// Returns the error of a call that sends a message.
    pub(super) fn while_sending(self) -> ChannelError {
        match (self.kind(), self.meaning()) {
            (DenialKind::Closed, _) if self.ambiguity.is_some() => {
                ChannelError::Closed(P::describe(&self))
            }
            (DenialKind::Closed, meaning) => ChannelError::Closed(P::explain(&self, meaning)),
            (DenialKind::MaybeDone, _) => ChannelError::Ambiguous(P::describe(&self)),
            (DenialKind::Never | DenialKind::Unsendable, "") => {
                ChannelError::Refused(P::refusal(&self))
            }
            (DenialKind::Never | DenialKind::Unsendable, meaning) => {
                ChannelError::Refused(format!("{meaning} ({})", self.error_text))
            }
            (DenialKind::Limited | DenialKind::Later, _) => self.unavailable(),
        }
    }

    pub(super) fn unavailable(self) -> ChannelError {
        let reason = match (self.kind(), self.meaning()) {
            (DenialKind::Limited, _) => format!("{} limits the rate of requests", P::NAME),
            (DenialKind::Later, meaning) if !meaning.is_empty() => P::explain(&self, meaning),
            _ => P::describe(&self),
        };
        ChannelError::Unavailable { after: self.after, reason }
    }
}

impl<P: Platform> CallError<P> {
    /// Returns the error of a call that changes nothing visible: polling, identifying ourselves, typing.
    pub(super) fn while_asking(self) -> ChannelError {
        let platform = P::NAME;
        match self {
            Self::Denied(denial) => denial.while_asking(),
            Self::NotSent(reason) | Self::Lost(reason) => {
                ChannelError::unavailable(format!("{platform}: {reason}"))
            }
            Self::Unreadable(reason) => {
                ChannelError::unavailable(format!("{platform}'s answer cannot be read: {reason}"))
            }
        }
    }

    /// Returns the error of a call that sends, which is `Ambiguous` if the message may have arrived.
    /// `Unreadable` means success, and the caller handles it.
    pub(super) fn while_sending(self) -> ChannelError {
        let platform = P::NAME;
        match self {
            Self::Denied(denial) => denial.while_sending(),
            Self::NotSent(reason) => ChannelError::unavailable(format!("{platform}: {reason}")),
            Self::Lost(reason) | Self::Unreadable(reason) => {
                ChannelError::Ambiguous(format!("{platform}: {reason}"))
            }
        }
    }
}

/// The client of one platform's API.
pub struct ApiClient {
    pub(super) client: Client,
    /// The base of all URLs. Ends in a slash.
    pub(super) base: Url,
    /// The configured base, if it is not the platform's default. It may be wrong.
    custom_base: Option<String>,
}

impl ApiClient {
    /// Creates a client for the API at `api_url`. `default_url` is the platform's own.
    pub fn new(api_url: &str, default_url: &str, connect: Duration) -> anyhow::Result<Self> {
        let base: Url = format!("{}/", api_url.trim_end_matches('/'))
            .parse()
            .with_context(|| format!("api_url `{api_url}` is not a URL"))?;
        let client = http::client(&base, connect)
            .pool_idle_timeout(IDLE_MAX)
            // A call that times out closes its dead connection. HTTP/2 would use it again.
            .http1_only()
            .build()
            .context("cannot set up HTTP")?;
        let shown_base = format!("{}{}", base.origin().ascii_serialization(), base.path());
        let shown_base = shown_base.trim_end_matches('/');
        Ok(Self {
            client,
            custom_base: (shown_base != default_url).then(|| shown_base.to_owned()),
            base,
        })
    }

    pub(super) async fn send<P>(&self, request: RequestBuilder) -> Result<Response, CallError<P>> {
        request.send().await.map_err(|error| {
            let reason = describe_error(&error);
            if error.is_connect() {
                CallError::NotSent(self.with_address(reason))
            } else if error.is_builder() {
                CallError::NotSent(reason)
            } else {
                CallError::Lost(reason)
            }
        })
    }

    /// Returns the error for a success whose body cannot be parsed. A truncated answer comes from the
    /// platform; an HTML page does not.
    pub(super) fn unreadable<P>(&self, error: &serde_json::Error) -> CallError<P> {
        let reason = error.to_string();
        CallError::Unreadable(if error.is_syntax() { self.with_address(reason) } else { reason })
    }

    /// Describes a status without the platform's own text, if another server may have answered. None for
    /// server errors and rate limits: then the platform itself may answer without a text.
    pub fn ambiguity(&self, status: StatusCode) -> Option<String> {
        let in_trouble = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE);
        self.custom_base.as_ref().filter(|_| !in_trouble)?;
        Some(self.with_address(status.to_string()))
    }

    /// Adds the address to an error text, if the configured address may be wrong.
    fn with_address(&self, text: String) -> String {
        match &self.custom_base {
            Some(base) => format!("{text} at {base}: is api_url right?"),
            None => text,
        }
    }
}

/// Reads the whole body of a response. If the body of a refusal is lost on the way, it counts as empty.
pub(super) async fn read_whole<P>(response: Response) -> Result<Vec<u8>, CallError<P>> {
    let succeeded = response.status().is_success();
    match read_limited(response).await {
        Err(reason) if succeeded => Err(CallError::Unreadable(reason)),
        body => Ok(body.unwrap_or_default()),
    }
}

async fn read_limited(mut response: Response) -> Result<Vec<u8>, String> {
    let ReadBody { bytes, end } = http::read_body(&mut response, RESPONSE_BYTES_MAX, || None).await;
    match end {
        BodyEnd::Whole => Ok(bytes),
        BodyEnd::TooLong => Err(format!("the answer is longer than {RESPONSE_BYTES_MAX} bytes")),
        BodyEnd::Late => Err("no answer in time".to_owned()),
        BodyEnd::Lost(error) => Err(describe_error(&error)),
    }
}

/// Describes the error with its innermost cause, without the URL, which may contain a token.
pub(super) fn describe_error(error: &reqwest::Error) -> String {
    let summary = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection was lost"
    };
    http::root_cause(error)
        .map_or_else(|| summary.to_owned(), |cause| format!("{summary}: {cause}"))
}
