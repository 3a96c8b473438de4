//! One call of Discord's REST API, its answer, and its errors, sorted by whether it may have had an effect.
//! [`endpoints`](super::endpoints) has the paths. serenity's own client is not used: it drops the wait
//! that a 429 demands, and adds a second TLS stack.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, RETRY_AFTER, USER_AGENT};
use reqwest::multipart::Form;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Config, DiscordDeadlines};
use crate::channels::ChannelError;
use crate::channels::call::{self, ApiClient, DenialKind, DenialRow, Platform, row};
use crate::channels::config::DISCORD_URL;
use crate::channels::discord::endpoints::{self, Endpoint};
use crate::channels::json;

/// Suppresses link previews (Message resource, flags): Discord would fetch an address that a model wrote, which may
/// leak data to its server.
pub(super) const SUPPRESS_EMBEDS: u64 = 1 << 2;

/// Discord rejects a user agent without a URL and a version in this form (Reference, user agent). Peacrab
/// has no page of its own; the URL is that of the library that builds our bodies.
const OUR_USER_AGENT: &str = concat!(
    "DiscordBot (https://github.com/serenity-rs/serenity, 0.12) Peacrab/",
    env!("CARGO_PKG_VERSION")
);

/// Maximum wait within a call, for which drafts allow five seconds. The caller makes longer waits.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Maximum number of routes whose waits are remembered. Discord reports the others again.
const ROUTES_MAX: usize = 256;

/// Maximum wait that Discord can demand, in seconds.
const AFTER_SECS_MAX: f64 = 3600.0;

/// Discord's REST API with our token.
pub(super) struct DiscordApi {
    caller: ApiClient,
    /// The value of the `Authorization` header.
    token: String,
    deadline: Duration,
    /// End of the wait of each route, and of all routes under the empty name. A mutex, because sends and
    /// the listener are different tasks. It guards a few instants.
    waits: Mutex<HashMap<String, Instant>>,
}

pub(super) type DiscordCallError = call::CallError<DiscordRefusal>;

type DiscordDenial = call::Denial<DiscordRefusal>;

/// Facts of a refusal that only Discord reports.
#[derive(Debug, Default)]
pub(super) struct DiscordRefusal {
    /// Discord's error code. 0 if there is none.
    code: u64,
    /// True if the error text is Discord's own, not that of a proxy on the way.
    is_discords: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    code: u64,
    message: String,
    retry_after: Option<f64>,
    global: bool,
}

impl DiscordApi {
    pub(super) fn new(config: &Config, deadlines: &DiscordDeadlines) -> anyhow::Result<Self> {
        let token = config.token.reveal().trim();
        let token = token.strip_prefix("Bot ").unwrap_or(token);
        anyhow::ensure!(!token.is_empty(), "the Discord token is empty");
        Ok(Self {
            caller: ApiClient::new(&config.api_url, DISCORD_URL, deadlines.connect)?,
            token: format!("Bot {token}"),
            deadline: deadlines.call,
            waits: Mutex::default(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.caller.client
    }

    /// Returns the base of the API. Its server may serve files, besides Discord's own file servers.
    pub(super) fn base(&self) -> &Url {
        &self.caller.base
    }

    /// Returns the token without its prefix, for the gateway.
    pub(super) fn token(&self) -> &str {
        self.token.trim_start_matches("Bot ")
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint<'_>,
        query: &[(&'static str, String)],
    ) -> Result<T, DiscordCallError> {
        let query = |request: RequestBuilder| request.query(query).timeout(self.deadline);
        self.read(&self.execute(endpoint, query).await?)
    }

    /// Sends `body` and parses the answer.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint<'_>,
        body: &impl Serialize,
    ) -> Result<T, DiscordCallError> {
        let body = |request: RequestBuilder| request.json(body).timeout(self.deadline);
        self.read(&self.execute(endpoint, body).await?)
    }

    /// Makes a call whose answer is empty.
    pub(super) async fn order(
        &self,
        endpoint: Endpoint<'_>,
        body: Option<&serde_json::Value>,
    ) -> Result<(), DiscordCallError> {
        let body = |request: RequestBuilder| match body {
            Some(body) => request.json(body).timeout(self.deadline),
            None => request.header(CONTENT_LENGTH, 0).timeout(self.deadline),
        };
        self.execute(endpoint, body).await.map(drop)
    }

    /// Sends a body with a file. The deliverer bounds its time.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint<'_>,
        form: Form,
    ) -> Result<T, DiscordCallError> {
        self.read(&self.execute(endpoint, |request| request.multipart(form)).await?)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, DiscordCallError> {
        let read = serde_json::from_slice(body);
        let read = read.or_else(|_| json::read(body).and_then(T::deserialize));
        read.map_err(|error| self.caller.unreadable(&error))
    }

    /// Makes one call, to which `add_body` adds its body. Returns the body of the answer.
    async fn execute(
        &self,
        endpoint: Endpoint<'_>,
        add_body: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Vec<u8>, DiscordCallError> {
        let (method, path) = endpoint.method_and_path();
        let route = format!("{method} {path}");
        self.await_limit(&route).await?;
        let url = endpoints::address(self.base(), &path)
            .map_err(|error| DiscordCallError::NotSent(error.to_string()))?;
        let request = self.client().request(method, url).header(AUTHORIZATION, &self.token);
        self.conclude(&route, add_body(request.header(USER_AGENT, OUR_USER_AGENT))).await
    }

    async fn conclude(
        &self,
        route: &str,
        request: RequestBuilder,
    ) -> Result<Vec<u8>, DiscordCallError> {
        let response = self.caller.send(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = call::read_whole(response).await;
        if status.is_success() {
            self.note_wait(route, wait_after_last(&headers));
            return body;
        }
        let refusal: ErrorBody = serde_json::from_slice(&body?).unwrap_or_default();
        let header_wait =
            headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        // The body has fractions of seconds. The header is there too when a proxy answers for Discord.
        let after = refusal.retry_after.or(header_wait).and_then(seconds);
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.note_wait(if refusal.global { "" } else { route }, after);
        }
        let details =
            DiscordRefusal { code: refusal.code, is_discords: !refusal.message.is_empty() };
        let ambiguity = self.caller.ambiguity(status).filter(|_| !details.is_discords);
        let bare = DiscordDenial::from_status(status);
        let error_text = if details.is_discords { refusal.message } else { bare.error_text };
        Err(DiscordCallError::Denied(DiscordDenial {
            status: bare.status,
            error_text,
            after,
            ambiguity,
            details,
        }))
    }

    /// Waits until the route's rate limit ends. A call with a long wait is not sent, and returns the wait
    /// as an error.
    async fn await_limit(&self, route: &str) -> Result<(), DiscordCallError> {
        let until = {
            let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
            [route, ""].iter().filter_map(|name| waits.get(*name).copied()).max()
        };
        let Some(until) = until else { return Ok(()) };
        let wait = until.saturating_duration_since(Instant::now());
        if wait > WAIT_MAX {
            let denial = DiscordDenial::from_status(StatusCode::TOO_MANY_REQUESTS);
            return Err(DiscordCallError::Denied(DiscordDenial { after: Some(wait), ..denial }));
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn note_wait(&self, route: &str, wait: Option<Duration>) {
        let Some(wait) = wait else { return };
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        waits.retain(|_, until| *until > now);
        if waits.len() < ROUTES_MAX {
            waits.insert(route.to_owned(), now + wait);
        }
    }
}

/// Returns how long a route must wait if this was its last call in the rate limit's window.
fn wait_after_last(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
    let is_last = number("x-ratelimit-remaining")? < 1.0;
    is_last.then(|| number("x-ratelimit-reset-after").and_then(seconds)).flatten()
}

fn seconds(after: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(after.min(AFTER_SECS_MAX)).ok()
}

impl DiscordCallError {
    /// Returns the error of an edit. Repeating an edit does no harm, so an ambiguous one is `Unavailable`. If
    /// `perhaps` is set, other text may appear there meanwhile, and it stays ambiguous.
    pub(super) fn while_editing(self, perhaps: bool) -> ChannelError {
        match self {
            // A message that cannot be edited can be sent again as a new one.
            Self::Denied(denial)
                if denial.kind() == DenialKind::Never
                    && !NOT_OF_EDITS.contains(&denial.details.code) =>
            {
                tracing::debug!(
                    code = denial.details.code,
                    error = denial.error_text,
                    "Discord does not accept an edit"
                );
                ChannelError::DraftGone
            }
            error => match error.while_sending() {
                ChannelError::Ambiguous(reason) if !perhaps => ChannelError::unavailable(reason),
                error => error,
            },
        }
    }

    /// Returns true if Discord refused with this error code.
    pub(super) fn is(&self, code: u64) -> bool {
        self.is_one_of(&[code])
    }

    pub(super) fn is_one_of(&self, codes: &[u64]) -> bool {
        matches!(self, Self::Denied(denial) if codes.contains(&denial.details.code))
    }
}

/// Discord's error codes (Opcodes and status codes, JSON error codes).
pub(super) const UNKNOWN_CHANNEL: u64 = 10003;
pub(super) const THREAD_IS_THERE: u64 = 160_004;

/// Reasons why a thread cannot be opened where messages can be sent: permissions, too many threads.
pub(super) const NO_THREADS: [u64; 5] = [50001, 50013, 50024, 160_006, 160_007];

/// Refusals of an edit that a new message would get, too: no access, no permission, an invalid form.
const NOT_OF_EDITS: [u64; 5] = [40067, 50001, 50007, 50013, 50035];

/// Identifies a refusal of Discord.
pub(super) enum RefusalCode {
    Code(u64),
    /// Any code.
    Coded,
    /// The text is Discord's own, not that of a proxy on the way.
    IsDiscords,
}

/// The meanings of Discord's refusals.
const REFUSALS: &[DenialRow<RefusalCode>] = &[
    row(&[401], &[RefusalCode::IsDiscords], DenialKind::Closed, TOKEN_NOT_ACCEPTED),
    row(&[429], &[], DenialKind::Limited, ""),
    // A server that failed while it worked may have carried out the call; Discord can be asked for the
    // result. Cloudflare, in front of Discord, does not know either if an answer made no sense or was
    // late (520, 524).
    row(&[500, 502, 504, 520, 524], &[], DenialKind::MaybeDone, ""),
    // Permanent, however little the answer explains: the message will not become smaller.
    row(&[413], &[], DenialKind::Unsendable, ""),
    // Cloudflare rejected the request before it reached Discord.
    row(&[], &[RefusalCode::Code(40333)], DenialKind::Later, ""),
    refused(&[RefusalCode::Code(10003)], "there is no such channel, or the bot cannot see it"),
    refused(&[RefusalCode::Code(10008)], "this message is gone"),
    refused(&[RefusalCode::Code(40067)], "this forum requires tags on its posts"),
    refused(
        &[RefusalCode::Code(50001)],
        "the bot cannot see this channel: give it the permission View Channel there",
    ),
    refused(
        &[RefusalCode::Code(50007)],
        "this person takes no messages from the bot: they have blocked it, allow no direct messages, \
         or share no server with it",
    ),
    refused(
        &[RefusalCode::Code(50008), RefusalCode::Code(50024)],
        "this kind of channel has no messages",
    ),
    refused(
        &[RefusalCode::Code(50013)],
        "the bot is not allowed to do this here: give it the permissions Send Messages, Send Messages \
         in Threads, Create Public Threads and Read Message History",
    ),
    refused(&[RefusalCode::Code(50083), RefusalCode::Code(160_005)], "this thread is closed"),
    refused(&[RefusalCode::Coded], ""),
    row(&[405], &[RefusalCode::Coded], DenialKind::Unsendable, ""),
];

const fn refused(
    patterns: &'static [RefusalCode],
    meaning: &'static str,
) -> DenialRow<RefusalCode> {
    row(&[400, 403, 404], patterns, DenialKind::Never, meaning)
}

impl Platform for DiscordRefusal {
    type Pattern = RefusalCode;

    const NAME: &'static str = "discord";
    const REFUSALS: &'static [DenialRow<RefusalCode>] = REFUSALS;

    fn matches(denial: &DiscordDenial, pattern: &RefusalCode) -> bool {
        match pattern {
            RefusalCode::Code(code) => denial.details.code == *code,
            RefusalCode::Coded => denial.details.code != 0,
            RefusalCode::IsDiscords => denial.details.is_discords,
        }
    }

    fn refusal(denial: &DiscordDenial) -> String {
        format!("discord refuses it: {} ({})", denial.error_text, denial.details.code)
    }
}

const TOKEN_NOT_ACCEPTED: &str = "token not accepted: Discord says {error}. Make a new one at \
     https://discord.com/developers/applications (your application, Bot, Reset Token). A \
     bot that is in the config already takes it from where its `token` is read, after `peacrab reload`";

pub(super) fn token_not_accepted(message: &str) -> ChannelError {
    ChannelError::Closed(TOKEN_NOT_ACCEPTED.replace("{error}", message))
}
