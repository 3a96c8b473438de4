//! One call of the Bot API: out, back, and sorted by what is certain about it. teloxide's own
//! caller is not used, since it sleeps for ten seconds on a 5xx and drops the status code.

use std::time::Duration;

use reqwest::multipart::Form;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use teloxide::requests::Payload;

use super::{Config, Deadlines};
use crate::channels::ChannelError;
use crate::channels::call::{self, Caller, Meaning};
use crate::channels::config::TELEGRAM_URL;

/// The Bot API with our token.
pub(super) struct Api {
    caller: Caller,
    /// Ends in `/bot<token>/`, so it is not shown.
    base: Url,
    /// Ends in `/file/bot<token>/`, likewise.
    files: Url,
}

pub(super) type CallError = call::CallError<Denial>;

#[derive(Debug, Default)]
pub(super) struct Denial {
    /// The HTTP status, unless the answer had a code of its own.
    pub(super) code: u16,
    pub(super) description: String,
    pub(super) after: Option<Duration>,
    /// The supergroup that the group has become.
    pub(super) moved_to: Option<i64>,
    /// What to say instead, if it may have been another server than Telegram's.
    doubt: Option<String>,
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
        let caller = Caller::new(&config.api_url, TELEGRAM_URL, deadlines.connect)?;
        let under = |path: &[&str]| {
            let mut url = caller.base.clone();
            url.path_segments_mut()
                .map_err(|()| anyhow::anyhow!("api_url `{}` cannot have a path", config.api_url))?
                .pop_if_empty()
                .extend(path);
            anyhow::Ok(url)
        };
        let ours = format!("bot{token}");
        let (base, files) = (under(&[&ours, ""])?, under(&["file", &ours, ""])?);
        Ok(Self { caller, base, files })
    }

    /// Calls `P`'s method and reads its result as `T`, within `deadline`.
    pub(super) async fn call<P: Payload + serde::Serialize, T: DeserializeOwned>(
        &self,
        payload: &P,
        deadline: Duration,
    ) -> Result<T, CallError> {
        let url = self.base.join(P::NAME).map_err(|e| CallError::NotSent(e.to_string()))?;
        self.answer(self.caller.client.post(url).timeout(deadline).json(payload)).await
    }

    /// Calls a method that takes a file along.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        deadline: Duration,
    ) -> Result<T, CallError> {
        let url = self.base.join(method).map_err(|e| CallError::NotSent(e.to_string()))?;
        self.answer(self.caller.client.post(url).timeout(deadline).multipart(form)).await
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
        let response = self.caller.send(self.caller.client.get(url).timeout(deadline)).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(Download(response));
        }
        Err(CallError::Denied(Denial::bare(status)))
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        let response = self.caller.send(request).await?;
        let status = response.status();
        let body = call::whole(response).await?;
        match serde_json::from_slice(&body) {
            Ok(answer) => judge(status, answer),
            Err(error) if status.is_success() => Err(self.caller.unreadable(&error)),
            Err(_) => {
                let doubt = self.caller.doubt(status);
                Err(CallError::Denied(Denial { doubt, ..Denial::bare(status) }))
            }
        }
    }
}

/// A file on its way in.
pub(super) struct Download(Response);

impl Download {
    /// The next bytes; none at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, CallError> {
        self.0.chunk().await.map_err(|error| CallError::Lost(call::in_words(&error)))
    }
}

fn judge<T: DeserializeOwned>(status: StatusCode, answer: Answer) -> Result<T, CallError> {
    if !answer.ok {
        return Err(CallError::Denied(Denial {
            code: answer.error_code.unwrap_or(status.as_u16()),
            description: answer.description,
            after: answer.parameters.retry_after.map(Duration::from_secs),
            moved_to: answer.parameters.migrate_to_chat_id,
            doubt: None,
        }));
    }
    T::deserialize(answer.result.unwrap_or_default())
        .map_err(|error| CallError::Unreadable(error.to_string()))
}

impl CallError {
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

impl Meaning for Denial {
    const PLATFORM: &'static str = "telegram";

    fn while_asking(self) -> ChannelError {
        match self.code {
            401 | 404 => self.closed(),
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
            401 | 404 => self.closed(),
            // A server that broke while it worked, or one before it that got no answer, may have done it.
            500 | 502 | 503 | 504 => ChannelError::Ambiguous(self.in_words()),
            400 | 403 | 413 => ChannelError::Refused(self.refusal()),
            _ => self.unavailable(),
        }
    }
}

impl Denial {
    /// Without a word that tells more.
    fn bare(status: StatusCode) -> Self {
        let description = status.canonical_reason().unwrap_or("an unknown status").to_owned();
        Self { code: status.as_u16(), description, ..Self::default() }
    }

    fn says(&self, words: &[&str]) -> bool {
        let description = self.description.to_ascii_lowercase();
        words.iter().any(|word| description.contains(word))
    }

    /// Of what only the operator can mend.
    fn closed(self) -> ChannelError {
        ChannelError::Closed(match self.doubt {
            Some(doubt) => format!("telegram answers with {doubt}"),
            None => format!(
                "token not accepted: Telegram says {}. Get a valid one from @BotFather, put it \
                 where the channel's `token` is read from, and restart",
                self.description
            ),
        })
    }

    fn unavailable(self) -> ChannelError {
        ChannelError::Unavailable { reason: self.in_words(), after: self.after }
    }

    fn in_words(&self) -> String {
        let Self { code, description, doubt, .. } = self;
        match (code, doubt) {
            (429, _) => "telegram wants us to slow down".to_owned(),
            (_, Some(doubt)) => format!("telegram answers with {doubt}"),
            (_, None) if description.is_empty() => format!("telegram answers with {code}"),
            (_, None) => format!("telegram answers with {code}: {description}"),
        }
    }

    fn refusal(&self) -> String {
        match (self.about_the_place(), &self.doubt) {
            (Some(meaning), _) => format!("{meaning} ({})", self.description),
            (None, Some(doubt)) => format!("telegram answers with {doubt}"),
            (None, None) => format!("telegram refuses the message: {}", self.description),
        }
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
