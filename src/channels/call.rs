//! One call of a platform's API over HTTP, as far as all platforms are alike: the client, the bytes of
//! an answer, and what is certain about a call that failed. What a call asks for, and what a refusal
//! looks like and means, is each platform's own.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use super::ChannelError;
use crate::http::{self, Body, BodyEnd};

/// A connection that has been idle for longer is not used again: servers and routers forget them,
/// and a request lost in one may or may not have arrived.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// A hundred updates of the longest texts are well below, and so are two hundred messages.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What went wrong, sorted by what is known.
#[derive(Debug)]
pub(super) enum CallError<P> {
    /// There was no connection: the request has not gone out.
    NotSent(String),
    /// The link was lost, or the deadline passed, after the request may have gone out.
    Lost(String),
    /// The server said no.
    Denied(Denial<P>),
    /// The server said yes, in a way that cannot be read.
    Unreadable(String),
}

/// What a refusal means for whoever called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only the operator can help.
    Closed,
    /// Called too often.
    Limited,
    /// Not done, and worth another try.
    Later,
    /// It may have been done.
    Perhaps,
    /// Never, whatever was asked.
    Never,
    /// Never for this message. A call that changes nothing may be made again.
    Unsendable,
}

/// A row of a platform's table of refusals.
pub struct Row<Sign: 'static> {
    /// Any status, if empty.
    pub statuses: &'static [u16],
    /// One of these is shown; any refusal, if empty.
    pub signs: &'static [Sign],
    pub kind: Kind,
    /// In the words of people; empty where the platform's own have to do. `{said}` stands for those.
    pub meaning: &'static str,
}

/// Makes a row, short enough for a table.
pub const fn row<Sign>(
    statuses: &'static [u16],
    signs: &'static [Sign],
    kind: Kind,
    meaning: &'static str,
) -> Row<Sign> {
    Row { statuses, signs, kind, meaning }
}

/// A refusal of a call.
#[derive(Debug, Default)]
pub struct Denial<P> {
    /// The HTTP status, unless the answer had a code of its own.
    pub status: u16,
    /// What the platform says, as it words it.
    pub said: String,
    /// How long it wants to be left alone.
    pub after: Option<Duration>,
    /// What to say instead, if it may have been another server than the platform's.
    pub doubt: Option<String>,
    /// What only this platform tells.
    pub own: P,
}

/// How a platform says no.
pub trait Platform: Sized + Default {
    /// What a refusal is known by besides its status: a code of the platform's, or a word.
    type Sign: 'static;

    /// As it stands before what it says.
    const NAME: &'static str;

    /// Of several rows that match, the first counts. What none matches is tried again.
    const REFUSALS: &'static [Row<Self::Sign>];

    fn shows(denial: &Denial<Self>, sign: &Self::Sign) -> bool;

    /// All that is known, for the log.
    fn in_words(denial: &Denial<Self>) -> String {
        let (name, status) = (Self::NAME, denial.status);
        match (&denial.doubt, denial.said.as_str()) {
            (Some(doubt), _) => format!("{name} answers with {doubt}"),
            (None, "") => format!("{name} answers with {status}"),
            (None, said) => format!("{name} answers with {status}: {said}"),
        }
    }

    /// Why a message is refused, where the table does not know.
    fn refusal(denial: &Denial<Self>) -> String {
        match denial.doubt {
            Some(_) => Self::in_words(denial),
            None => format!("{} refuses the message: {}", Self::NAME, denial.said),
        }
    }

    /// A meaning with its gaps filled.
    fn explain(denial: &Denial<Self>, meaning: &str) -> String {
        meaning.replace("{said}", &denial.said)
    }
}

impl<P: Platform> Denial<P> {
    /// Without a word that tells more.
    pub fn bare(status: StatusCode) -> Self {
        let said = status.canonical_reason().unwrap_or("an unknown status").to_owned();
        Self { status: status.as_u16(), said, ..Self::default() }
    }

    fn row(&self) -> Option<&'static Row<P::Sign>> {
        P::REFUSALS.iter().find(|row| {
            (row.statuses.is_empty() || row.statuses.contains(&self.status))
                && (row.signs.is_empty() || row.signs.iter().any(|sign| P::shows(self, sign)))
        })
    }

    pub(super) fn kind(&self) -> Kind {
        self.row().map_or(Kind::Later, |row| row.kind)
    }

    pub(super) fn meaning(&self) -> &'static str {
        self.row().map_or("", |row| row.meaning)
    }

    /// To a call that changes nothing that people see.
    fn while_asking(self) -> ChannelError {
        match self.kind() {
            Kind::Perhaps | Kind::Unsendable => self.unavailable(),
            _ => self.while_sending(),
        }
    }

    /// To a message.
    pub(super) fn while_sending(self) -> ChannelError {
        match (self.kind(), self.meaning()) {
            (Kind::Closed, _) if self.doubt.is_some() => ChannelError::Closed(P::in_words(&self)),
            (Kind::Closed, meaning) => ChannelError::Closed(P::explain(&self, meaning)),
            (Kind::Perhaps, _) => ChannelError::Ambiguous(P::in_words(&self)),
            (Kind::Never | Kind::Unsendable, "") => ChannelError::Refused(P::refusal(&self)),
            (Kind::Never | Kind::Unsendable, meaning) => {
                ChannelError::Refused(format!("{meaning} ({})", self.said))
            }
            (Kind::Limited | Kind::Later, _) => self.unavailable(),
        }
    }

    pub(super) fn unavailable(self) -> ChannelError {
        let reason = match (self.kind(), self.meaning()) {
            (Kind::Limited, _) => format!("{} wants us to slow down", P::NAME),
            (Kind::Later, meaning) if !meaning.is_empty() => P::explain(&self, meaning),
            _ => P::in_words(&self),
        };
        ChannelError::Unavailable { after: self.after, reason }
    }
}

impl<P: Platform> CallError<P> {
    /// For calls that change nothing that people see: polling, asking who we are, typing.
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

    /// For sending, where "perhaps" matters. `Unreadable` was a success, and the caller's business.
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

    pub(super) async fn send<P>(&self, request: RequestBuilder) -> Result<Response, CallError<P>> {
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
    pub(super) fn unreadable<P>(&self, error: &serde_json::Error) -> CallError<P> {
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
pub(super) async fn whole<P>(response: Response) -> Result<Vec<u8>, CallError<P>> {
    let succeeded = response.status().is_success();
    match read(response).await {
        Err(reason) if succeeded => Err(CallError::Unreadable(reason)),
        body => Ok(body.unwrap_or_default()),
    }
}

async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let Body { bytes, end } = http::read_body(&mut response, ANSWER_BYTES_MAX, || None).await;
    match end {
        BodyEnd::Whole => Ok(bytes),
        BodyEnd::TooLong => Err(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes")),
        BodyEnd::Late => Err("no answer in time".to_owned()),
        BodyEnd::Lost(error) => Err(in_words(&error)),
    }
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
