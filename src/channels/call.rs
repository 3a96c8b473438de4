//! One call of a platform's API over HTTP, as far as all platforms are alike: the client, the bytes of
//! an answer, and what is certain about a call that failed. What a call asks for, and what a refusal
//! looks like and means, is each platform's own.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use super::ChannelError;
use crate::http;

/// A connection that has been idle for longer is not used again: servers and routers forget them,
/// and a request lost in one may or may not have arrived.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// A hundred updates of the longest texts are well below, and so are two hundred messages.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What went wrong, sorted by what is known.
#[derive(Debug)]
pub(super) enum CallError<Denial> {
    /// There was no connection: the request has not gone out.
    NotSent(String),
    /// The link was lost, or the deadline passed, after the request may have gone out.
    Lost(String),
    /// The server said no.
    Denied(Denial),
    /// The server said yes, in a way that cannot be read.
    Unreadable(String),
}

/// What a platform means when it says no.
pub(super) trait Meaning {
    /// As it stands before what it says.
    const PLATFORM: &'static str;

    /// To a call that changes nothing that people see.
    fn while_asking(self) -> ChannelError;

    /// To a message.
    fn while_sending(self) -> ChannelError;
}

impl<Denial: Meaning> CallError<Denial> {
    /// For calls that change nothing that people see: polling, asking who we are, typing.
    pub(super) fn while_asking(self) -> ChannelError {
        let platform = Denial::PLATFORM;
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

    /// For sending, where "perhaps" matters. `Unreadable` was a success, and the caller's business.
    pub(super) fn while_sending(self) -> ChannelError {
        let platform = Denial::PLATFORM;
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
pub struct Caller {
    pub(super) client: Client,
    /// Ends in a slash.
    pub(super) base: Url,
    /// The base as people know it, if it is not the platform's own: it may be wrong.
    elsewhere: Option<String>,
}

impl Caller {
    /// For the API at `api_url`, which is at `own` unless somebody said otherwise.
    pub fn new(api_url: &str, own: &str, connect: Duration) -> anyhow::Result<Self> {
        let base: Url = format!("{}/", api_url.trim_end_matches('/'))
            .parse()
            .with_context(|| format!("api_url `{api_url}` is not a URL"))?;
        let client = http::client(&base, connect)
            .pool_idle_timeout(IDLE_MAX)
            // A call that times out takes its dead connection along; HTTP/2 would use it again.
            .http1_only()
            .build()
            .context("cannot set up HTTP")?;
        let place = format!("{}{}", base.origin().ascii_serialization(), base.path());
        let place = place.trim_end_matches('/');
        Ok(Self { client, elsewhere: (place != own).then(|| place.to_owned()), base })
    }

    pub(super) async fn send<Denial>(
        &self,
        request: RequestBuilder,
    ) -> Result<Response, CallError<Denial>> {
        request.send().await.map_err(|error| {
            let reason = in_words(&error);
            if error.is_connect() {
                CallError::NotSent(self.placed(reason))
            } else if error.is_builder() {
                CallError::NotSent(reason)
            } else {
                CallError::Lost(reason)
            }
        })
    }

    /// Why a success cannot be read. What is only cut short is the platform's; a page is not.
    pub(super) fn unreadable<Denial>(&self, error: &serde_json::Error) -> CallError<Denial> {
        let reason = error.to_string();
        CallError::Unreadable(if error.is_syntax() { self.placed(reason) } else { reason })
    }

    /// A sentence about a status that came without the platform's own words, if that may be since
    /// another answers there. A server in trouble or one that guards it may be as
    /// silent.
    pub fn doubt(&self, status: StatusCode) -> Option<String> {
        let in_trouble = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE);
        self.elsewhere.as_ref().filter(|_| !in_trouble)?;
        Some(self.placed(status.to_string()))
    }

    /// Adds where that was, if that may be a wrong place.
    fn placed(&self, what: String) -> String {
        match &self.elsewhere {
            Some(place) => format!("{what} at {place}: is api_url right?"),
            None => what,
        }
    }
}

/// All of an answer; of one that is a refusal, nothing if it is lost on the way.
pub(super) async fn whole<Denial>(response: Response) -> Result<Vec<u8>, CallError<Denial>> {
    let succeeded = response.status().is_success();
    match read(response).await {
        Err(reason) if succeeded => Err(CallError::Unreadable(reason)),
        body => Ok(body.unwrap_or_default()),
    }
}

async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| in_words(&error))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What happened, and its innermost cause; without the URL, which may hold a token.
pub(super) fn in_words(error: &reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection was lost"
    };
    http::root_cause(error).map_or_else(|| what.to_owned(), |cause| format!("{what}: {cause}"))
}
