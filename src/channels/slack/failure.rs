//! What a failed call of the Web API means, and who acts next. The errors are Slack's own words.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

use crate::channels::ChannelError;
use crate::channels::call::{self, Meaning};

pub(super) type CallError = call::CallError<Denial>;

#[derive(Debug, Default)]
pub(super) struct Denial {
    status: u16,
    /// Slack's word for it, as `channel_not_found`; empty without one.
    pub(super) error: String,
    after: Option<Duration>,
    /// The scopes that are missing, if that is it.
    needed: String,
    /// What to say instead, if it may have been another server than Slack's.
    doubt: Option<String>,
}

/// Some aspect of the operation may have succeeded before, as Slack's reference says of these.
const PERHAPS_DONE: &[&str] = &["fatal_error", "internal_error"];

const TOKENS_REJECTED: &[&str] = &[
    "account_inactive",
    "invalid_auth",
    "not_authed",
    "team_access_not_granted",
    "token_expired",
    "token_revoked",
];

/// The operator's words for a token that Slack does not accept any more.
const NEW_TOKENS: &str = "Get valid ones at https://api.slack.com/apps (OAuth & Permissions for the \
     xoxb- one, Basic Information for the xapp- one), put them where the channel's `token` and \
     `app_token` are read from, and restart";

/// In the words of people. Errors are as Slack's reference of chat.postMessage has them.
const REFUSALS: &[(&[&str], &str)] = &[
    (&["channel_not_found"], "there is no such channel, or the bot cannot see it"),
    (&["not_in_channel"], "the bot is not in this channel: invite it"),
    (&["is_archived"], "this channel is archived"),
    (&["is_inactive"], "this channel is frozen"),
    (
        &["restricted_action", "not_allowed", "ekm_access_denied", "access_denied"],
        "the bot is not allowed to write in this channel",
    ),
    (&["cannot_dm_bot", "cant_dm_bot"], "bots cannot write to bots"),
    (&["user_disabled", "user_not_found", "users_not_found"], "this person's account is gone"),
    (&["thread_not_found", "invalid_thread_ts"], "this thread is gone"),
    (&["msg_too_long", "msg_blocks_too_long"], "the text is too long for Slack"),
    (&["no_text"], "there is no text that Slack would show"),
];

impl CallError {
    /// For what may be repeated without harm, but refused: an edit, say.
    pub(super) fn while_editing(self) -> ChannelError {
        match self {
            Self::Denied(denial) => denial.final_or_later(),
            other => other.while_asking(),
        }
    }

    pub(super) fn says(&self, errors: &[&str]) -> bool {
        match self {
            Self::Denied(denial) => denial.says(errors),
            _ => false,
        }
    }

    /// For what may be repeated without harm, unless something else may be said there meanwhile:
    /// then, "perhaps" matters.
    pub(super) fn while_drafting(self) -> ChannelError {
        match self {
            Self::Lost(_) | Self::NotSent(_) | Self::Denied(_) => self.while_sending(),
            Self::Unreadable(_) => self.while_editing(),
        }
    }

    /// The scopes that are missing, if that is it.
    pub(super) fn missing_scope(&self) -> Option<&str> {
        match self {
            Self::Denied(denial) if denial.says(&["missing_scope"]) => Some(denial.scope()),
            _ => None,
        }
    }

    /// How long Slack wants us to wait, if that is all that is wrong.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self {
            Self::Denied(denial) if denial.is_rate_limit() => {
                Some(denial.after.unwrap_or(RATE_LIMIT_PAUSE))
            }
            _ => None,
        }
    }
}

/// Where Slack does not say how long: its limits are counted by the minute.
const RATE_LIMIT_PAUSE: Duration = Duration::from_secs(30);

impl Meaning for Denial {
    const PLATFORM: &'static str = "slack";

    fn while_asking(self) -> ChannelError {
        self.closed().unwrap_or_else(Self::unavailable)
    }

    fn while_sending(self) -> ChannelError {
        if self.is_perhaps_done() {
            return ChannelError::Ambiguous(format!("slack answers {}", self.words()));
        }
        self.final_or_later()
    }
}

impl Denial {
    /// As Slack words it.
    pub(super) fn of(status: StatusCode, after: Option<Duration>, answer: &Value) -> Self {
        let field = |name| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { error: field("error"), needed: field("needed"), ..Self::silent(status, after, None) }
    }

    /// Without a word of Slack's.
    pub(super) fn silent(
        status: StatusCode,
        after: Option<Duration>,
        doubt: Option<String>,
    ) -> Self {
        Self { status: status.as_u16(), after, doubt, ..Self::default() }
    }

    fn says(&self, errors: &[&str]) -> bool {
        errors.contains(&self.error.as_str())
    }

    /// Slack will say the same next time, and would of any other message.
    pub(super) fn is_no(&self) -> bool {
        !self.is_later() && !self.says(TOKENS_REJECTED) && !self.says(&["not_allowed_token_type"])
    }

    fn is_later(&self) -> bool {
        self.is_rate_limit()
            // Slack always says why; something on the way to it need not.
            || self.error.is_empty()
            || self.status >= 500
            || self.says(PERHAPS_DONE)
            || self.says(&["service_unavailable", "request_timeout", "team_added_to_org"])
    }

    fn is_rate_limit(&self) -> bool {
        self.status == 429 || self.says(&["ratelimited", "rate_limited", "message_limit_exceeded"])
    }

    /// A gateway that gave up may have passed the request on; one that was overloaded has not.
    fn is_perhaps_done(&self) -> bool {
        self.says(PERHAPS_DONE) || self.error.is_empty() && matches!(self.status, 500 | 502 | 504)
    }

    fn words(&self) -> String {
        match &self.doubt {
            Some(doubt) => doubt.clone(),
            None if self.error.is_empty() => self.status.to_string(),
            None => self.error.clone(),
        }
    }

    fn scope(&self) -> &str {
        if self.needed.is_empty() { "a scope" } else { &self.needed }
    }

    /// What only the operator can mend.
    fn closed(self) -> Result<ChannelError, Self> {
        let error = &self.error;
        let words = if self.says(TOKENS_REJECTED) {
            format!("token not accepted: Slack says {error}. {NEW_TOKENS}")
        } else if self.says(&["not_allowed_token_type"]) {
            format!(
                "token of the wrong kind: Slack says {error}. `token` is the bot's (xoxb-…), \
                 `app_token` the app's (xapp-…, with the scope connections:write)"
            )
        } else if self.says(&["missing_scope"]) {
            format!(
                "the app may not do this: Slack says {error}, {} is needed. Add it at \
                 https://api.slack.com/apps under OAuth & Permissions, install the app again, and \
                 restart",
                self.scope()
            )
        } else {
            return Err(self);
        };
        Ok(ChannelError::Closed(words))
    }

    fn final_or_later(self) -> ChannelError {
        let is_later = self.is_later();
        match self.closed() {
            Ok(closed) => closed,
            Err(denial) if is_later => denial.unavailable(),
            Err(denial) => ChannelError::Refused(denial.refusal()),
        }
    }

    fn unavailable(self) -> ChannelError {
        let reason = if self.is_rate_limit() {
            "slack wants us to slow down".to_owned()
        } else {
            format!("slack answers {}", self.words())
        };
        ChannelError::Unavailable { after: self.after, reason }
    }

    pub(super) fn refusal(&self) -> String {
        REFUSALS.iter().find(|(errors, _)| self.says(errors)).map_or_else(
            || format!("slack refuses the message: {}", self.words()),
            |(_, meaning)| format!("{meaning} ({})", self.error),
        )
    }
}
