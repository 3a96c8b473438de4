//! One call of the Bot API: out, back, and sorted by what is certain about it. teloxide's own
//! caller is not used, since it sleeps for ten seconds on a 5xx and drops the status code.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::multipart::Form;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use teloxide::requests::Payload;

use super::{Config, Deadlines};
use crate::channels::ChannelError;

/// A connection that has been idle for longer is not used again: servers and routers forget them,
/// and a request lost in one may or may not have arrived.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// A hundred updates of the longest texts are well below.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The Bot API with our token.
pub(super) struct Api {
    client: Client,
    /// Ends in `/bot<token>/`, so it is not shown.
    base: Url,
    /// Ends in `/file/bot<token>/`, likewise.
    files: Url,
}

/// What went wrong, sorted by what is known.
#[derive(Debug)]
pub(super) enum CallError {
    /// There was no connection: the request has not gone out.
    NotSent(String),
    /// The link was lost, or the deadline passed, after the request may have gone out.
    Lost(String),
    /// The server said no.
    Denied(Denial),
    /// The server said yes, in a way that cannot be read.
    Unreadable(String),
}

#[derive(Debug, Default)]
pub(super) struct Denial {
    /// The HTTP status, unless the answer had a code of its own.
    pub(super) code: u16,
    pub(super) description: String,
    pub(super) after: Option<Duration>,
    /// The supergroup that the group has become.
    pub(super) moved_to: Option<i64>,
}

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    result: Option<Value>,
    error_code: Option<u16>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Default, Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

impl Api {
    pub(super) fn new(config: &Config, deadlines: &Deadlines) -> anyhow::Result<Self> {
        let token = config.token.reveal().trim();
        anyhow::ensure!(!token.is_empty(), "the Telegram token is empty");
        let server: Url = config
            .api_url
            .parse()
            .with_context(|| format!("api_url `{}` is not a URL", config.api_url))?;
        let under = |path: &[&str]| {
            let mut url = server.clone();
            url.path_segments_mut()
                .map_err(|()| anyhow::anyhow!("api_url `{}` cannot have a path", config.api_url))?
                .pop_if_empty()
                .extend(path);
            anyhow::Ok(url)
        };
        let ours = format!("bot{token}");
        let (base, files) = (under(&[&ours, ""])?, under(&["file", &ours, ""])?);
        let mut client = Client::builder()
            .connect_timeout(deadlines.connect)
            .pool_idle_timeout(IDLE_MAX)
            // A call that times out takes its dead connection along; HTTP/2 would use it again.
            .http1_only()
            .redirect(reqwest::redirect::Policy::none());
        if base.host_str().is_some_and(|host| matches!(host, "127.0.0.1" | "localhost" | "[::1]")) {
            client = client.no_proxy();
        }
        Ok(Self { client: client.build().context("cannot set up HTTP")?, base, files })
    }

    /// Calls `P`'s method and reads its result as `T`, within `deadline`.
    pub(super) async fn call<P: Payload + serde::Serialize, T: DeserializeOwned>(
        &self,
        payload: &P,
        deadline: Duration,
    ) -> Result<T, CallError> {
        let url = self.base.join(P::NAME).map_err(|e| CallError::NotSent(e.to_string()))?;
        answer(self.client.post(url).timeout(deadline).json(payload)).await
    }

    /// Calls a method that takes a file along.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        deadline: Duration,
    ) -> Result<T, CallError> {
        let url = self.base.join(method).map_err(|e| CallError::NotSent(e.to_string()))?;
        answer(self.client.post(url).timeout(deadline).multipart(form)).await
    }

    /// Begins to read a file, at a path that `getFile` gave. All of it has to come within `deadline`.
    pub(super) async fn download(
        &self,
        path: &str,
        deadline: Duration,
    ) -> Result<Download, CallError> {
        let mut url = self.files.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        let response = sent(self.client.get(url).timeout(deadline)).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(Download(response));
        }
        let description = status.canonical_reason().unwrap_or("an unknown status").to_owned();
        Err(CallError::Denied(Denial { code: status.as_u16(), description, ..Denial::default() }))
    }
}

/// A file on its way in.
pub(super) struct Download(Response);

impl Download {
    /// The next bytes; none at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, CallError> {
        self.0.chunk().await.map_err(|error| CallError::Lost(in_words(&error)))
    }
}

async fn sent(request: RequestBuilder) -> Result<Response, CallError> {
    request.send().await.map_err(|error| {
        let reason = in_words(&error);
        if error.is_connect() || error.is_builder() {
            CallError::NotSent(reason)
        } else {
            CallError::Lost(reason)
        }
    })
}

async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, CallError> {
    let response = sent(request).await?;
    let status = response.status();
    match read(response).await {
        Ok(body) => judge(status, &body),
        Err(reason) if status.is_success() => Err(CallError::Unreadable(reason)),
        Err(reason) => Err(CallError::Denied(Denial {
            code: status.as_u16(),
            description: reason,
            ..Denial::default()
        })),
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

fn judge<T: DeserializeOwned>(status: StatusCode, body: &[u8]) -> Result<T, CallError> {
    let answer: Answer = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(error) if status.is_success() => return Err(CallError::Unreadable(error.to_string())),
        Err(_) => Answer {
            ok: false,
            result: None,
            error_code: None,
            description: status.canonical_reason().unwrap_or("an unknown status").to_owned(),
            parameters: Parameters::default(),
        },
    };
    if !answer.ok {
        return Err(CallError::Denied(Denial {
            code: answer.error_code.unwrap_or(status.as_u16()),
            description: answer.description,
            after: answer.parameters.retry_after.map(Duration::from_secs),
            moved_to: answer.parameters.migrate_to_chat_id,
        }));
    }
    T::deserialize(answer.result.unwrap_or_default())
        .map_err(|error| CallError::Unreadable(error.to_string()))
}

/// The whole chain of causes, without the URL: it holds the token.
fn in_words(error: &reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection was lost"
    };
    let mut cause = std::error::Error::source(error);
    let mut words = what.to_owned();
    while let Some(inner) = cause {
        words = format!("{what}: {inner}");
        cause = inner.source();
    }
    words
}

impl CallError {
    /// For calls that change nothing that people see: polling, asking who we are, typing.
    pub(super) fn while_asking(self) -> ChannelError {
        match self {
            Self::Denied(denial) => denial.while_asking(),
            Self::NotSent(reason) | Self::Lost(reason) => {
                ChannelError::unavailable(format!("telegram: {reason}"))
            }
            Self::Unreadable(reason) => {
                ChannelError::unavailable(format!("telegram's answer cannot be read: {reason}"))
            }
        }
    }

    /// For sending, where "perhaps" matters. `Unreadable` was a success, and the caller's business.
    pub(super) fn while_sending(self) -> ChannelError {
        match self {
            Self::Denied(denial) => denial.while_sending(),
            Self::NotSent(reason) => ChannelError::unavailable(format!("telegram: {reason}")),
            Self::Lost(reason) | Self::Unreadable(reason) => {
                ChannelError::Ambiguous(format!("telegram: {reason}"))
            }
        }
    }

    pub(super) fn says(&self, words: &[&str]) -> bool {
        match self {
            Self::Denied(denial) => denial.code == 400 && denial.says(words),
            _ => false,
        }
    }

    /// Why the message itself is refused, where it is not about the place that it goes to.
    pub(super) fn refuses_content(&self) -> Option<&str> {
        match self {
            Self::Denied(denial) if matches!(denial.code, 400 | 413) => {
                denial.about_the_place().is_none().then_some(denial.description.as_str())
            }
            _ => None,
        }
    }
}

impl Denial {
    fn says(&self, words: &[&str]) -> bool {
        let description = self.description.to_ascii_lowercase();
        words.iter().any(|word| description.contains(word))
    }

    fn while_asking(self) -> ChannelError {
        match self.code {
            401 | 404 => token_not_accepted(&self.description),
            409 if self.says(&["webhook"]) => ChannelError::unavailable(
                "a webhook is set for this bot, so it cannot be polled: remove it with the method \
                 deleteWebhook",
            ),
            409 => ChannelError::unavailable(
                "another program polls Telegram with the same token: stop it, or give each a token \
                 of its own",
            ),
            _ => self.unavailable(),
        }
    }

    fn while_sending(self) -> ChannelError {
        match self.code {
            401 | 404 => token_not_accepted(&self.description),
            // What stands before the Bot API gave up waiting for it.
            504 => ChannelError::Ambiguous(format!("telegram: {}", self.description)),
            400 | 403 | 413 => ChannelError::Refused(self.refusal()),
            _ => self.unavailable(),
        }
    }

    fn unavailable(self) -> ChannelError {
        let Self { code, description, after, .. } = self;
        let reason = match (code, description.is_empty()) {
            (429, _) => "telegram wants us to slow down".to_owned(),
            (_, true) => format!("telegram answers with {code}"),
            (_, false) => format!("telegram answers with {code}: {description}"),
        };
        ChannelError::Unavailable { after, reason }
    }

    fn refusal(&self) -> String {
        self.about_the_place().map_or_else(
            || format!("telegram refuses the message: {}", self.description),
            |meaning| format!("{meaning} ({})", self.description),
        )
    }

    /// What a refusal means that has nothing to do with the message. Descriptions are as the Bot
    /// API's server words them.
    fn about_the_place(&self) -> Option<&'static str> {
        let known: &[(&[&str], &'static str)] = &[
            (&["blocked by the user"], "this person has blocked the bot"),
            (&["user is deactivated"], "this person's account is gone"),
            (&["can't initiate conversation"], "this person has not written to the bot yet"),
            (&["can't send messages to bots", "user is a bot"], "bots cannot write to bots"),
            (&["was kicked", "not a member"], "the bot is not in this chat any more"),
            (&["chat not found", "peer_id_invalid", "deactivated"], "there is no such chat"),
            (
                &["not enough rights", "write_forbidden", "have no rights", "chat_restricted"],
                "the bot is not allowed to write in this chat",
            ),
            (&["topic_closed"], "this topic is closed"),
            (&["thread not found", "topic_deleted", "topic_id_invalid"], "this topic is gone"),
        ];
        known.iter().find(|(words, _)| self.says(words)).map(|(_, meaning)| *meaning)
    }
}

fn token_not_accepted(description: &str) -> ChannelError {
    ChannelError::Closed(format!(
        "token not accepted: Telegram says {description}. Get a valid one from @BotFather, put it \
         where the channel's `token` is read from, and restart"
    ))
}
