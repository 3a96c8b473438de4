//! One call of the Web API, its answer, and its errors, sorted by whether it may have had an effect. slack-morphism
//! supplies the requests. Its client is not used, because it has no deadlines and parses answers
//! strictly: one new kind of block in a channel's history would be a failure.

use std::time::Duration;

use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slack_morphism::api::{
    SlackApiAppsConnectionOpenRequest, SlackApiAssistantThreadsSetStatusRequest,
    SlackApiChatPostEphemeralRequest, SlackApiChatPostMessageRequest, SlackApiChatUpdateRequest,
    SlackApiConversationsHistoryRequest, SlackApiConversationsRepliesRequest,
    SlackApiUsersInfoRequest,
};

use super::failure::{SlackCallError, SlackDenial};
use super::{Config, SlackDeadlines};
use crate::channels::call::{self, ApiClient};
use crate::channels::config::SLACK_URL;
use crate::channels::json;
use crate::http::is_loopback;
use crate::secret::Secret;

/// Content type of requests. Slack warns about JSON without a charset.
const JSON: &str = "application/json; charset=utf-8";

/// The Web API with our tokens.
pub(super) struct SlackApi {
    caller: ApiClient,
    bot_token: Secret,
    app_token: Secret,
    deadline: Duration,
}

/// Encoding of a method's arguments. Methods that read do not accept JSON.
#[derive(Clone, Copy)]
pub(super) enum ArgumentEncoding {
    Json,
    Form,
}

/// The token that a method requires.
#[derive(Clone, Copy)]
pub(super) enum Token {
    Bot,
    App,
}

/// A request with the name of its method.
pub(super) trait Method: Serialize + Sync {
    const NAME: &'static str;
    const TAKES: ArgumentEncoding = ArgumentEncoding::Json;
    const TOKEN: Token = Token::Bot;
}

#[derive(Serialize)]
pub(super) struct AuthTest {}

/// The SDK's request lacks the option to return metadata with replies.
#[derive(Serialize)]
pub(super) struct RepliesRequest {
    #[serde(flatten)]
    pub(super) replies: SlackApiConversationsRepliesRequest,
    pub(super) include_all_metadata: bool,
}

impl Method for AuthTest {
    const NAME: &'static str = "auth.test";
    const TAKES: ArgumentEncoding = ArgumentEncoding::Form;
}

impl Method for SlackApiAppsConnectionOpenRequest {
    const NAME: &'static str = "apps.connections.open";
    const TAKES: ArgumentEncoding = ArgumentEncoding::Form;
    const TOKEN: Token = Token::App;
}

impl Method for SlackApiChatPostMessageRequest {
    const NAME: &'static str = "chat.postMessage";
}

/// A request with link previews disabled, for requests in which the library cannot disable them.
#[derive(Serialize)]
pub(super) struct WithoutPreviews<M> {
    #[serde(flatten)]
    request: M,
    unfurl_links: bool,
    unfurl_media: bool,
}

impl<M> WithoutPreviews<M> {
    pub(super) fn of(request: M) -> Self {
        Self { request, unfurl_links: false, unfurl_media: false }
    }
}

impl<M: Method> Method for WithoutPreviews<M> {
    const NAME: &'static str = M::NAME;
    const TAKES: ArgumentEncoding = M::TAKES;
    const TOKEN: Token = M::TOKEN;
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
    const TAKES: ArgumentEncoding = ArgumentEncoding::Form;
}

impl Method for RepliesRequest {
    const NAME: &'static str = "conversations.replies";
    const TAKES: ArgumentEncoding = ArgumentEncoding::Form;
}

impl Method for SlackApiUsersInfoRequest {
    const NAME: &'static str = "users.info";
    const TAKES: ArgumentEncoding = ArgumentEncoding::Form;
}

impl SlackApi {
    pub(super) fn new(config: &Config, deadlines: &SlackDeadlines) -> anyhow::Result<Self> {
        for (token, what) in [(&config.token, "bot"), (&config.app_token, "app")] {
            anyhow::ensure!(!token.reveal().trim().is_empty(), "the Slack {what} token is empty");
        }
        Ok(Self {
            caller: ApiClient::new(&config.api_url, SLACK_URL, deadlines.connect)?,
            bot_token: config.token.clone(),
            app_token: config.app_token.clone(),
            deadline: deadlines.call,
        })
    }

    /// Returns true if the Web API is on this machine. Then its URLs may be, too.
    pub(super) fn is_here(&self) -> bool {
        is_loopback(&self.caller.base)
    }

    pub(super) fn client(&self) -> &Client {
        &self.caller.client
    }

    pub(super) fn bot_token(&self) -> &str {
        self.bot_token.reveal().trim()
    }

    /// Calls the method and parses its answer as `T`.
    pub(super) async fn call<M: Method, T: DeserializeOwned>(
        &self,
        request: &M,
    ) -> Result<T, SlackCallError> {
        self.call_with_scopes(request).await.map(|(answer, _)| answer)
    }

    /// Calls the method as [`Self::call`] does. Returns also the scopes of the token, if Slack names them.
    pub(super) async fn call_with_scopes<M: Method, T: DeserializeOwned>(
        &self,
        request: &M,
    ) -> Result<(T, Option<Vec<String>>), SlackCallError> {
        let url =
            self.caller.base.join(M::NAME).map_err(|e| SlackCallError::NotSent(e.to_string()))?;
        let token = match M::TOKEN {
            Token::Bot => &self.bot_token,
            Token::App => &self.app_token,
        };
        let post =
            self.client().post(url).timeout(self.deadline).bearer_auth(token.reveal().trim());
        let post = match M::TAKES {
            // `json` keeps a header that is set already.
            ArgumentEncoding::Json => post.header(CONTENT_TYPE, JSON).json(request),
            ArgumentEncoding::Form => post.form(request),
        };
        let response = self.caller.send(post).await?;
        let (status, after) = (response.status(), retry_after(response.headers()));
        let scopes = scopes(response.headers());
        let body = call::read_whole(response).await?;
        let answer = json::read(&body);
        let ok = answer.as_ref().ok().and_then(|answer| answer.get("ok")).and_then(Value::as_bool);
        match (answer, ok) {
            (Ok(answer), Some(true)) if status.is_success() => {
                let answer = T::deserialize(answer);
                let answer =
                    answer.map_err(|error| SlackCallError::Unreadable(error.to_string()))?;
                Ok((answer, scopes))
            }
            (Ok(answer), Some(false)) => {
                Err(SlackCallError::Denied(SlackDenial::of(status, after, &answer)))
            }
            (Ok(_), _) if status.is_success() => {
                Err(SlackCallError::Unreadable("it is not what Slack answers".to_owned()))
            }
            (Err(error), _) if status.is_success() => Err(self.caller.unreadable(&error)),
            _ => {
                let ambiguity = self.caller.ambiguity(status);
                Err(SlackCallError::Denied(SlackDenial::without_error(status, after, ambiguity)))
            }
        }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Returns the scopes of the token that was used (Slack's docs, "Checking the scopes of a token").
fn scopes(headers: &HeaderMap) -> Option<Vec<String>> {
    let listed = headers.get("x-oauth-scopes")?.to_str().ok()?;
    Some(listed.split(',').map(|scope| scope.trim().to_owned()).collect())
}
