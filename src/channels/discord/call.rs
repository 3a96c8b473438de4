//! One call of Discord's REST: out, back, and sorted by what is certain about it. Where a call goes
//! stands in [`endpoints`](super::endpoints). serenity's own caller is not used: it drops how long a
//! 429 asks us to wait, and brings a second TLS stack.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, RETRY_AFTER, USER_AGENT};
use reqwest::multipart::Form;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Config, Deadlines};
use crate::channels::ChannelError;
use crate::channels::call::{self, Caller, Meaning};
use crate::channels::config::DISCORD_URL;
use crate::channels::discord::endpoints::{self, Endpoint};

/// Discord turns away who does not name a URL and a version in this form (Reference, user agent).
/// Peacrab has no page of its own; the URL is that of the library that writes our bodies.
const OUR_USER_AGENT: &str = concat!(
    "DiscordBot (https://github.com/serenity-rs/serenity, 0.12) Peacrab/",
    env!("CARGO_PKG_VERSION")
);

/// Waits up to here are made within a call, which drafts allow five seconds; longer ones are the
/// caller's to make.
const REST_MAX: Duration = Duration::from_secs(2);

/// Routes whose rests are remembered; beyond, they are learnt again.
const ROUTES_MAX: usize = 256;

/// The longest wait that is believed.
const AFTER_SECS_MAX: f64 = 3600.0;

/// Discord's REST with our token.
pub(super) struct Api {
    caller: Caller,
    /// As the header has it.
    token: String,
    deadline: Duration,
    /// Until when each route rests, and under the empty name all of them. A mutex, since sends and
    /// the listener are different tasks; it guards a few instants.
    rests: Mutex<HashMap<String, Instant>>,
}

pub(super) type CallError = call::CallError<Denial>;

#[derive(Debug, Default)]
pub(super) struct Denial {
    pub(super) status: u16,
    /// Discord's own code; 0 without one.
    pub(super) code: u64,
    pub(super) message: String,
    pub(super) after: Option<Duration>,
    /// Whether these are Discord's words, and not those of something on the way to it.
    is_discords: bool,
    /// What to say instead, if that may be another server.
    doubt: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    code: u64,
    message: String,
    retry_after: Option<f64>,
    global: bool,
}

impl Api {
    pub(super) fn new(config: &Config, deadlines: &Deadlines) -> anyhow::Result<Self> {
        let token = config.token.reveal().trim();
        let token = token.strip_prefix("Bot ").unwrap_or(token);
        anyhow::ensure!(!token.is_empty(), "the Discord token is empty");
        Ok(Self {
            caller: Caller::new(&config.api_url, DISCORD_URL, deadlines.connect)?,
            token: format!("Bot {token}"),
            deadline: deadlines.call,
            rests: Mutex::default(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.caller.client
    }

    /// Where files may be fetched from, besides Discord's own servers for them.
    pub(super) fn base(&self) -> &Url {
        &self.caller.base
    }

    /// The token without the word before it, for the gateway.
    pub(super) fn token(&self) -> &str {
        self.token.trim_start_matches("Bot ")
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint<'_>,
        query: &[(&'static str, String)],
    ) -> Result<T, CallError> {
        let query = |request: RequestBuilder| request.query(query).timeout(self.deadline);
        self.read(&self.execute(endpoint, query).await?)
    }

    /// Sends `body` and reads the answer.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint<'_>,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        let body = |request: RequestBuilder| request.json(body).timeout(self.deadline);
        self.read(&self.execute(endpoint, body).await?)
    }

    /// Calls what answers nothing; `body` may be `None`.
    pub(super) async fn order(
        &self,
        endpoint: Endpoint<'_>,
        body: Option<&serde_json::Value>,
    ) -> Result<(), CallError> {
        let body = |request: RequestBuilder| match body {
            Some(body) => request.json(body).timeout(self.deadline),
            None => request.header(CONTENT_LENGTH, 0).timeout(self.deadline),
        };
        self.execute(endpoint, body).await.map(drop)
    }

    /// Sends a body with a file. Its time is bounded by whoever delivers it.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint<'_>,
        form: Form,
    ) -> Result<T, CallError> {
        self.read(&self.execute(endpoint, |request| request.multipart(form)).await?)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, CallError> {
        serde_json::from_slice(body).map_err(|error| self.caller.unreadable(&error))
    }

    /// Makes one call, to which `add` adds its body; gives the answer's.
    async fn execute(
        &self,
        endpoint: Endpoint<'_>,
        add: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Vec<u8>, CallError> {
        let (method, path) = endpoint.method_and_path();
        let route = format!("{method} {path}");
        self.rest(&route).await?;
        let url = endpoints::address(self.base(), &path)
            .map_err(|error| CallError::NotSent(error.to_string()))?;
        let request = self.client().request(method, url).header(AUTHORIZATION, &self.token);
        self.conclude(&route, add(request.header(USER_AGENT, OUR_USER_AGENT))).await
    }

    async fn conclude(&self, route: &str, request: RequestBuilder) -> Result<Vec<u8>, CallError> {
        let response = self.caller.send(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = call::whole(response).await;
        if status.is_success() {
            self.note_rest(route, used_up(&headers));
            return body;
        }
        let refusal: Refusal = serde_json::from_slice(&body?).unwrap_or_default();
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        // The body tells fractions; the header is there too when a proxy speaks for Discord.
        let after = refusal.retry_after.or(header).and_then(seconds);
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.note_rest(if refusal.global { "" } else { route }, after);
        }
        let is_discords = !refusal.message.is_empty();
        let message = match refusal.message {
            message if message.is_empty() => {
                status.canonical_reason().unwrap_or("an unknown status").to_owned()
            }
            message => message,
        };
        let doubt = self.caller.doubt(status).filter(|_| !is_discords);
        let (status, code) = (status.as_u16(), refusal.code);
        Err(CallError::Denied(Denial { status, code, message, after, is_discords, doubt }))
    }

    /// Waits while the route rests; what would take long is not sent, and says until when.
    async fn rest(&self, route: &str) -> Result<(), CallError> {
        let until = {
            let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
            [route, ""].iter().filter_map(|name| rests.get(*name).copied()).max()
        };
        let Some(until) = until else { return Ok(()) };
        let wait = until.saturating_duration_since(Instant::now());
        if wait > REST_MAX {
            let message = "You are being rate limited.".to_owned();
            return Err(CallError::Denied(Denial {
                status: StatusCode::TOO_MANY_REQUESTS.as_u16(),
                message,
                after: Some(wait),
                ..Denial::default()
            }));
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn note_rest(&self, route: &str, wait: Option<Duration>) {
        let Some(wait) = wait else { return };
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        rests.retain(|_, until| *until > now);
        if rests.len() < ROUTES_MAX {
            rests.insert(route.to_owned(), now + wait);
        }
    }
}

/// How long a route rests whose last call of this window was just made.
fn used_up(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
    let is_last = number("x-ratelimit-remaining")? < 1.0;
    is_last.then(|| number("x-ratelimit-reset-after").and_then(seconds)).flatten()
}

fn seconds(after: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(after.min(AFTER_SECS_MAX)).ok()
}

impl CallError {
    /// For an edit. It may be made again without harm, so "perhaps" is "not yet"; but where
    /// something else may be said there meanwhile, `perhaps` it is.
    pub(super) fn while_editing(self, perhaps: bool) -> ChannelError {
        match self {
            // What can only not be edited can be said anew.
            Self::Denied(denial)
                if matches!(denial.status, 400 | 403 | 404)
                    && denial.is_final()
                    && !NOT_OF_EDITS.contains(&denial.code) =>
            {
                tracing::debug!(denial.code, denial.message, "Discord does not take an edit");
                ChannelError::DraftGone
            }
            error => match error.while_sending() {
                ChannelError::Ambiguous(reason) if !perhaps => ChannelError::unavailable(reason),
                error => error,
            },
        }
    }

    /// Whether Discord refused with this code of its own.
    pub(super) fn is(&self, code: u64) -> bool {
        self.is_one_of(&[code])
    }

    pub(super) fn is_one_of(&self, codes: &[u64]) -> bool {
        matches!(self, Self::Denied(denial) if codes.contains(&denial.code))
    }
}

/// Codes of Discord's (Opcodes and status codes, JSON error codes).
pub(super) const UNKNOWN_CHANNEL: u64 = 10003;
pub(super) const THREAD_IS_THERE: u64 = 160_004;

/// Why a thread cannot be opened where messages may well be made: permissions, too many threads.
pub(super) const NO_THREADS: [u64; 5] = [50001, 50013, 50024, 160_006, 160_007];

/// Refusals of an edit that a new message would meet, too: no access, no permission, a wrong form.
const NOT_OF_EDITS: [u64; 5] = [40067, 50001, 50007, 50013, 50035];

/// Discord's code for what Cloudflare turns away before it reaches Discord.
const TURNED_AWAY: u64 = 40333;

impl Meaning for Denial {
    const PLATFORM: &'static str = "discord";

    fn while_asking(self) -> ChannelError {
        match self.status {
            401 if self.is_discords => token_not_accepted(&self.message),
            400 | 403 | 404 if self.is_final() => ChannelError::Refused(self.refusal()),
            _ => self.unavailable(),
        }
    }

    fn while_sending(self) -> ChannelError {
        match self.status {
            401 if self.is_discords => token_not_accepted(&self.message),
            // A server that broke while it worked may have done what it was asked; Discord can be
            // asked for it. Nor does Cloudflare know, before Discord, when an answer made no sense or
            // none came in time (520, 524).
            500 | 502 | 504 | 520 | 524 => ChannelError::Ambiguous(self.in_words()),
            400 | 403 | 404 | 405 if self.is_final() => ChannelError::Refused(self.refusal()),
            // However little is said of it: it will not become smaller.
            413 => ChannelError::Refused(self.refusal()),
            _ => self.unavailable(),
        }
    }
}

impl Denial {
    /// Whether Discord itself refused, and will the next time.
    fn is_final(&self) -> bool {
        !matches!(self.code, 0 | TURNED_AWAY)
    }

    fn unavailable(self) -> ChannelError {
        let reason = match self.status {
            429 => "discord wants us to slow down".to_owned(),
            _ => self.in_words(),
        };
        ChannelError::Unavailable { after: self.after, reason }
    }

    fn in_words(&self) -> String {
        match &self.doubt {
            Some(doubt) => format!("discord answers with {doubt}"),
            None => format!("discord answers with {}: {}", self.status, self.message),
        }
    }

    fn refusal(&self) -> String {
        let meaning = match self.code {
            10003 => "there is no such channel, or the bot cannot see it",
            10008 => "this message is gone",
            40067 => "this forum wants its posts to have tags",
            50001 => "the bot cannot see this channel: give it the permission View Channel there",
            50007 => {
                "this person takes no messages from the bot: they have blocked it, allow no \
                 direct messages, or share no server with it"
            }
            50008 | 50024 => "this kind of channel holds no messages",
            50013 => {
                "the bot is not allowed to do this here: give it the permissions Send Messages, \
                 Send Messages in Threads, Create Public Threads and Read Message History"
            }
            50083 | 160_005 => "this thread is closed",
            _ => return format!("discord refuses it: {} ({})", self.message, self.code),
        };
        format!("{meaning} ({})", self.message)
    }
}

pub(super) fn token_not_accepted(message: &str) -> ChannelError {
    ChannelError::Closed(format!(
        "token not accepted: Discord says {message}. Make a new one at \
         https://discord.com/developers/applications (your application, Bot, Reset Token), put it \
         where the channel's `token` is read from, and restart"
    ))
}
