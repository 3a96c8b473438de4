//! One call of the Web API: out, back, and sorted by what is certain about it. slack-morphism gives
//! the requests; its caller is not used, since it has no deadlines and reads answers strictly: one
//! new kind of block in a channel's history would be a failure.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slack_morphism::api::{
    SlackApiAppsConnectionOpenRequest, SlackApiAssistantThreadsSetStatusRequest,
    SlackApiChatPostEphemeralRequest, SlackApiChatPostMessageRequest, SlackApiChatUpdateRequest,
    SlackApiConversationsHistoryRequest, SlackApiConversationsRepliesRequest,
    SlackApiUsersInfoRequest,
};

use super::failure::CallError;
use super::{Config, Deadlines};
use crate::secret::Secret;

/// A connection that has been idle for longer is not used again: servers and routers forget them,
/// and a request lost in one may or may not have arrived.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Two hundred messages of the longest texts, with their blocks, are well below.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Slack warns of JSON without its charset.
const JSON: &str = "application/json; charset=utf-8";

/// The Web API with our tokens.
pub(super) struct Api {
    pub(super) client: Client,
    /// Ends in a slash.
    base: Url,
    bot_token: Secret,
    app_token: Secret,
    deadline: Duration,
}

/// How a method takes its arguments: those that read know no JSON.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    Json,
    Form,
}

/// Which of the two tokens a method wants.
#[derive(Clone, Copy)]
pub(super) enum Token {
    Bot,
    App,
}

/// A request that knows its method.
pub(super) trait Method: Serialize + Sync {
    const NAME: &'static str;
    const TAKES: Takes = Takes::Json;
    const TOKEN: Token = Token::Bot;
}

#[derive(Serialize)]
pub(super) struct AuthTest {}

/// The SDK's request does not know that replies can come with their metadata.
#[derive(Serialize)]
pub(super) struct RepliesRequest {
    #[serde(flatten)]
    pub(super) replies: SlackApiConversationsRepliesRequest,
    pub(super) include_all_metadata: bool,
}

impl Method for AuthTest {
    const NAME: &'static str = "auth.test";
    const TAKES: Takes = Takes::Form;
}

impl Method for SlackApiAppsConnectionOpenRequest {
    const NAME: &'static str = "apps.connections.open";
    const TAKES: Takes = Takes::Form;
    const TOKEN: Token = Token::App;
}

impl Method for SlackApiChatPostMessageRequest {
    const NAME: &'static str = "chat.postMessage";
}

impl Method for SlackApiChatUpdateRequest {
    const NAME: &'static str = "chat.update";
}

impl Method for SlackApiChatPostEphemeralRequest {
    const NAME: &'static str = "chat.postEphemeral";
}

impl Method for SlackApiAssistantThreadsSetStatusRequest {
    const NAME: &'static str = "assistant.threads.setStatus";
}

impl Method for SlackApiConversationsHistoryRequest {
    const NAME: &'static str = "conversations.history";
    const TAKES: Takes = Takes::Form;
}

impl Method for RepliesRequest {
    const NAME: &'static str = "conversations.replies";
    const TAKES: Takes = Takes::Form;
}

impl Method for SlackApiUsersInfoRequest {
    const NAME: &'static str = "users.info";
    const TAKES: Takes = Takes::Form;
}

impl Api {
    pub(super) fn new(config: &Config, deadlines: &Deadlines) -> anyhow::Result<Self> {
        for (token, what) in [(&config.token, "bot"), (&config.app_token, "app")] {
            anyhow::ensure!(!token.reveal().trim().is_empty(), "the Slack {what} token is empty");
        }
        let base: Url = format!("{}/", config.api_url.trim_end_matches('/'))
            .parse()
            .with_context(|| format!("api_url `{}` is not a URL", config.api_url))?;
        let mut client = Client::builder()
            .connect_timeout(deadlines.connect)
            .pool_idle_timeout(IDLE_MAX)
            // A call that times out takes its dead connection along; HTTP/2 would use it again.
            .http1_only()
            // Where a file moves to, our token must not follow.
            .redirect(reqwest::redirect::Policy::none());
        if is_here(&base) {
            client = client.no_proxy();
        }
        Ok(Self {
            client: client.build().context("cannot set up HTTP")?,
            base,
            bot_token: config.token.clone(),
            app_token: config.app_token.clone(),
            deadline: deadlines.call,
        })
    }

    /// Whether the Web API is on this machine, and so may be what it links to.
    pub(super) fn is_here(&self) -> bool {
        is_here(&self.base)
    }

    pub(super) fn bot_token(&self) -> &str {
        self.bot_token.reveal().trim()
    }

    /// Calls the method and reads what it answers as `T`.
    pub(super) async fn call<M: Method, T: DeserializeOwned>(
        &self,
        request: &M,
    ) -> Result<T, CallError> {
        let url = self.base.join(M::NAME).map_err(|e| CallError::NotSent(e.to_string()))?;
        let token = match M::TOKEN {
            Token::Bot => &self.bot_token,
            Token::App => &self.app_token,
        };
        let post = self.client.post(url).timeout(self.deadline).bearer_auth(token.reveal().trim());
        let post = match M::TAKES {
            // The header that is there already stays.
            Takes::Json => post.header(CONTENT_TYPE, JSON).json(request),
            Takes::Form => post.form(request),
        };
        let response = post.send().await.map_err(|error| CallError::of(&error))?;
        let (status, after) = (response.status(), retry_after(response.headers()));
        match read(response).await {
            Ok(body) => judge(status, after, &body),
            Err(reason) if status.is_success() => Err(CallError::Unreadable(reason)),
            Err(reason) => Err(CallError::denied(status.as_u16(), &reason, after)),
        }
    }
}

pub(super) fn is_here(url: &Url) -> bool {
    url.host_str().is_some_and(|host| matches!(host, "127.0.0.1" | "localhost" | "[::1]"))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

async fn read(mut response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| super::failure::in_words(&error))?
    {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn judge<T: DeserializeOwned>(
    status: StatusCode,
    after: Option<Duration>,
    body: &[u8],
) -> Result<T, CallError> {
    let answer: Option<Value> = serde_json::from_slice(body).ok();
    let ok = answer.as_ref().and_then(|answer| answer.get("ok")).and_then(Value::as_bool);
    match (answer, ok) {
        (Some(answer), Some(true)) if status.is_success() => {
            T::deserialize(answer).map_err(|error| CallError::Unreadable(error.to_string()))
        }
        (Some(answer), Some(false)) => {
            let field = |name| answer.get(name).and_then(Value::as_str).unwrap_or_default();
            let mut denied = CallError::denied(status.as_u16(), field("error"), after);
            if let CallError::Denied(denial) = &mut denied {
                field("needed").clone_into(&mut denial.needed);
            }
            Err(denied)
        }
        _ if status.is_success() => {
            Err(CallError::Unreadable("it is not what Slack answers".to_owned()))
        }
        _ => Err(CallError::denied(status.as_u16(), "", after)),
    }
}
