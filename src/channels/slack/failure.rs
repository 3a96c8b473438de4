//! What a failed call of the Web API means, and who acts next. The errors are Slack's own words.

use std::time::Duration;

use crate::channels::ChannelError;

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
    status: u16,
    /// Slack's word for it, as `channel_not_found`.
    pub(super) error: String,
    after: Option<Duration>,
    /// The scopes that are missing, if that is it.
    pub(super) needed: String,
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
    pub(super) fn denied(status: u16, error: &str, after: Option<Duration>) -> Self {
        Self::Denied(Denial { status, error: error.to_owned(), after, needed: String::new() })
    }

    pub(super) fn of(error: &reqwest::Error) -> Self {
        let reason = in_words(error);
        if error.is_connect() || error.is_builder() {
            Self::NotSent(reason)
        } else {
            Self::Lost(reason)
        }
    }

    /// For calls that change nothing that people see, and may be made again.
    pub(super) fn while_asking(self) -> ChannelError {
        match self {
            Self::Denied(denial) => denial.closed().unwrap_or_else(|denial| denial.unavailable()),
            Self::NotSent(reason) | Self::Lost(reason) => {
                ChannelError::unavailable(format!("slack: {reason}"))
            }
            Self::Unreadable(reason) => {
                ChannelError::unavailable(format!("slack's answer cannot be read: {reason}"))
            }
        }
    }

    /// For what may be repeated without harm, but refused: an edit, say.
    pub(super) fn while_editing(self) -> ChannelError {
        match self {
            Self::Denied(denial) => denial.final_or_later(),
            other => other.while_asking(),
        }
    }

    /// For sending, where "perhaps" matters. `Unreadable` was a success, and the caller's business.
    pub(super) fn while_sending(self) -> ChannelError {
        match self {
            Self::Denied(denial) if denial.is_perhaps_done() => {
                ChannelError::Ambiguous(format!("slack answers {}", denial.words()))
            }
            Self::Denied(denial) => denial.final_or_later(),
            Self::NotSent(reason) => ChannelError::unavailable(format!("slack: {reason}")),
            Self::Lost(reason) | Self::Unreadable(reason) => {
                ChannelError::Ambiguous(format!("slack: {reason}"))
            }
        }
    }

    pub(super) fn says(&self, errors: &[&str]) -> bool {
        match self {
            Self::Denied(denial) => denial.says(errors),
            _ => false,
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

impl Denial {
    fn says(&self, errors: &[&str]) -> bool {
        errors.contains(&self.error.as_str())
    }

    /// Slack will say the same next time, and would of any other message.
    pub(super) fn is_no(&self) -> bool {
        !self.is_later() && !self.says(TOKENS_REJECTED) && !self.says(&["not_allowed_token_type"])
    }

    fn is_later(&self) -> bool {
        self.is_rate_limit()
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
        if self.error.is_empty() { self.status.to_string() } else { self.error.clone() }
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
                if self.needed.is_empty() { "a scope" } else { &self.needed }
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

/// The whole chain of causes, without the URL.
pub(super) fn in_words(error: &reqwest::Error) -> String {
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
