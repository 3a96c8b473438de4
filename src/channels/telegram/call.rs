//! One call of the Bot API, its answer, and its errors, sorted by whether the call may have had an effect.
//! teloxide's own client is not used, because it sleeps for ten seconds on a 5xx and drops the status code.

use std::time::Duration;

use reqwest::multipart::Form;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use teloxide::requests::Payload;

use super::{Config, TelegramDeadlines};
use crate::channels::call::{self, ApiClient, DenialKind, DenialRow, Platform, row};
use crate::channels::config::TELEGRAM_URL;
use crate::channels::json;

/// The Bot API with our token.
pub(super) struct TelegramApi {
    caller: ApiClient,
    /// Ends in `/bot<token>/`, so it is never shown.
    base: Url,
    /// Ends in `/file/bot<token>/`, and is never shown either.
    files: Url,
}

pub(super) type TelegramCallError = call::CallError<TelegramRefusal>;

type TelegramDenial = call::Denial<TelegramRefusal>;

/// Facts of a refusal that only Telegram reports.
#[derive(Debug, Default)]
pub(super) struct TelegramRefusal {
    /// The supergroup that the group has become.
    pub(super) moved_to: Option<i64>,
}

#[derive(Deserialize)]
struct TelegramResponse {
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

impl TelegramApi {
    pub(super) fn new(config: &Config, deadlines: &TelegramDeadlines) -> anyhow::Result<Self> {
        let token = config.token.reveal().trim();
        anyhow::ensure!(!token.is_empty(), "the Telegram token is empty");
        let caller = ApiClient::new(&config.api_url, TELEGRAM_URL, deadlines.connect)?;
        let url_below = |path: &[&str]| {
            let mut url = caller.base.clone();
            url.path_segments_mut()
                .map_err(|()| anyhow::anyhow!("api_url `{}` cannot have a path", config.api_url))?
                .pop_if_empty()
                .extend(path);
            anyhow::Ok(url)
        };
        let bot_segment = format!("bot{token}");
        let (base, files) =
            (url_below(&[&bot_segment, ""])?, url_below(&["file", &bot_segment, ""])?);
        Ok(Self { caller, base, files })
    }

    /// Calls `P`'s method and parses its result as `T`, within `deadline`.
    pub(super) async fn call<P: Payload + serde::Serialize, T: DeserializeOwned>(
        &self,
        payload: &P,
        deadline: Duration,
    ) -> Result<T, TelegramCallError> {
        let url = self.base.join(P::NAME).map_err(|e| TelegramCallError::NotSent(e.to_string()))?;
        self.answer(self.caller.client.post(url).timeout(deadline).json(payload)).await
    }

    /// Calls a method with a file.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        deadline: Duration,
    ) -> Result<T, TelegramCallError> {
        let url = self.base.join(method).map_err(|e| TelegramCallError::NotSent(e.to_string()))?;
        self.answer(self.caller.client.post(url).timeout(deadline).multipart(form)).await
    }

    /// Starts the download of a file from a path that `getFile` returned. `deadline` applies to the whole
    /// file.
    pub(super) async fn download(
        &self,
        path: &str,
        deadline: Duration,
    ) -> Result<Download, TelegramCallError> {
        let mut url = self.files.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        let response = self.caller.send(self.caller.client.get(url).timeout(deadline)).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(Download(response));
        }
        Err(TelegramCallError::Denied(TelegramDenial::from_status(status)))
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, TelegramCallError> {
        let response = self.caller.send(request).await?;
        let status = response.status();
        let body = call::read_whole(response).await?;
        match json::read(&body).and_then(TelegramResponse::deserialize) {
            Ok(answer) => parse_answer(status, answer),
            Err(error) if status.is_success() => Err(self.caller.unreadable(&error)),
            Err(_) => {
                let ambiguity = self.caller.ambiguity(status);
                Err(TelegramCallError::Denied(TelegramDenial {
                    ambiguity,
                    ..TelegramDenial::from_status(status)
                }))
            }
        }
    }
}

/// A file that is being downloaded.
pub(super) struct Download(Response);

impl Download {
    /// Returns the next bytes. None at the end.
    pub(super) async fn chunk(
        &mut self,
    ) -> Result<Option<impl AsRef<[u8]> + use<>>, TelegramCallError> {
        self.0.chunk().await.map_err(|error| TelegramCallError::Lost(call::describe_error(&error)))
    }
}

fn parse_answer<T: DeserializeOwned>(
    status: StatusCode,
    answer: TelegramResponse,
) -> Result<T, TelegramCallError> {
    if !answer.ok {
        return Err(TelegramCallError::Denied(TelegramDenial {
            status: answer.error_code.unwrap_or(status.as_u16()),
            error_text: answer.description,
            after: answer.parameters.retry_after.map(Duration::from_secs),
            ambiguity: None,
            details: TelegramRefusal { moved_to: answer.parameters.migrate_to_chat_id },
        }));
    }
    T::deserialize(answer.result.unwrap_or_default())
        .map_err(|error| TelegramCallError::Unreadable(error.to_string()))
}

impl TelegramCallError {
    /// Returns true if another program polls with the same token.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Denied(denial) => denial.status == 409 && !says(denial, &["webhook"]),
            _ => false,
        }
    }

    pub(super) fn is_refused_with(&self, phrases: &[&str]) -> bool {
        match self {
            Self::Denied(denial) => denial.status == 400 && says(denial, phrases),
            _ => false,
        }
    }

    /// Returns the reason if the content of a message is refused, rather than its destination.
    pub(super) fn refuses_content(&self) -> Option<&str> {
        match self {
            Self::Denied(denial) if matches!(denial.status, 400 | 413) => {
                denial.meaning().is_empty().then_some(denial.error_text.as_str())
            }
            _ => None,
        }
    }
}

/// The meanings of Telegram's refusals. Descriptions are those of the Bot API's server, in lower case.
const REFUSALS: &[DenialRow<&str>] = &[
    row(
        &[401, 404],
        &[],
        DenialKind::Closed,
        "token not accepted: Telegram says {error}. Get a valid one from @BotFather. If the bot is in the config \
         already, put it where its `token` is read from, and run `peacrab reload`",
    ),
    row(
        &[409],
        &["webhook"],
        DenialKind::Later,
        "a webhook is set for this bot, so it cannot be polled: remove it with the method \
         deleteWebhook",
    ),
    row(
        &[409],
        &[],
        DenialKind::Later,
        "another program polls Telegram with the same token: stop it, or give each its own token",
    ),
    row(&[429], &[], DenialKind::Limited, ""),
    // A server that failed while it worked, or a proxy that got no answer, may have carried out the call.
    row(&[500, 502, 503, 504], &[], DenialKind::MaybeDone, ""),
    refused(&["blocked by the user"], "this person has blocked the bot"),
    refused(&["user is deactivated"], "this person's account is gone"),
    refused(&["can't initiate conversation"], "this person has not written to the bot yet"),
    refused(&["can't send messages to bots", "user is a bot"], "bots cannot write to bots"),
    refused(&["was kicked", "not a member"], "the bot is no longer in this chat"),
    refused(&["chat not found", "peer_id_invalid", "deactivated"], "there is no such chat"),
    refused(
        &["not enough rights", "write_forbidden", "have no rights", "chat_restricted"],
        "the bot is not allowed to write in this chat",
    ),
    refused(&["topic_closed"], "this topic is closed"),
    refused(&["thread not found", "topic_deleted", "topic_id_invalid"], "this topic is gone"),
    refused(&[], ""),
];

const fn refused(
    phrases: &'static [&'static str],
    meaning: &'static str,
) -> DenialRow<&'static str> {
    row(&[400, 403, 413], phrases, DenialKind::Unsendable, meaning)
}

impl Platform for TelegramRefusal {
    type Pattern = &'static str;

    const NAME: &'static str = "telegram";
    const REFUSALS: &'static [DenialRow<&'static str>] = REFUSALS;

    fn matches(denial: &TelegramDenial, phrase: &&'static str) -> bool {
        says(denial, &[phrase])
    }
}

fn says(denial: &TelegramDenial, phrases: &[&str]) -> bool {
    let said = denial.error_text.to_ascii_lowercase();
    phrases.iter().any(|phrase| said.contains(phrase))
}
